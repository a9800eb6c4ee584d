"""The configuration of an exported model."""

import dataclasses

from bert_tf.configs.model import ModelConfig
from bert_tf.configs.options import Config, option


@dataclasses.dataclass(frozen=True)
class ServingConfig(Config):
    """How a model of any task is exported.

    From Python, a `dtype` of None leaves the model as it is. `skip_padding` (see `TokenLayout`) is
    off by default with `sequence_buckets`, which are for devices and compilers that need few
    shapes, and for ids, since converters may lack the operations. A task whose answers depend on
    the outputs for padding needs False.
    """

    GROUP = "Serving"

    inputs: str = option(
        "text",
        "text takes strings, and ids by a second signature, and needs tensorflow-text; ids takes "
        "ids and needs only TensorFlow.",
        choices=("text", "ids"),
    )
    sequence_buckets: tuple[int, ...] = option(
        (),
        "Lengths to pad sequences to, such as 32,64,128; the longest of a batch if not given.",
    )
    weights: str | None = option(
        None,
        "Type to store the weights in, that of dtype if not given; bfloat16 and int8 make the "
        "files half and a quarter as large.",
        choices=("float32", "bfloat16", "int8"),
    )
    dtype: str | None = option(
        "float32",
        "Type to compute in; bfloat16 is faster on CPUs that have instructions for it.",
        choices=("float32", "bfloat16", "float16"),
    )
    skip_padding: bool | None = option(
        None,
        "Whether to compute only tokens, not padding; if not given, for models that take text and "
        "have no sequence_buckets. XLA, TPUs and converters need models that compute padding.",
    )
    warm_up: bool = option(True, "Whether to write requests for TF Serving to warm up with.")

    @property
    def stored_type(self):
        """The type that the weights are stored in."""
        return self.weights or self.dtype or "float32"

    @property
    def computes_padding(self):
        """Whether padding is computed."""
        if self.skip_padding is None:
            return self.inputs != "text" or bool(self.sequence_buckets)
        return not self.skip_padding


@dataclasses.dataclass(frozen=True)
class ExportConfig(Config):
    """What export_model.py exports, and where to, apart from the name of the task."""

    GROUP = "Run"
    GROUPS = (
        ("Model", "model_dir checkpoint"),
        ("Task", "labels max_seq_length num_texts version_2_with_negative num_best"),
    )

    export_dir: str = option(
        None, "Folder of the model's versions; a numbered folder is created in it."
    )
    model_dir: str | None = option(
        None, "output_dir of the script that trained the model, or a Hugging Face folder."
    )
    checkpoint: str | None = option(
        None, "A checkpoint of that run, the newest in model_dir if not given."
    )
    labels: tuple[str, ...] = option(
        (), "Without model_dir: labels, if no file next to it has them."
    )
    max_seq_length: int | None = option(
        None,
        "Without model_dir: longest sequence in tokens; if not given 128, or 384 for "
        "question_answering, or the most that the model supports.",
        minimum=1,
    )
    num_texts: int = option(
        1,
        "For classification, multi_label and regression: 2 for pairs of texts.",
        minimum=1,
        maximum=2,
    )
    version_2_with_negative: bool = option(
        False, "For question_answering: whether there may be no answer."
    )
    num_best: int = option(5, "For fill_mask: number of words for each mask.", minimum=1)
    version: int | None = option(
        None, "Number of the version, the next free one if not given.", minimum=0
    )
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    serving: ServingConfig = dataclasses.field(default_factory=ServingConfig)
