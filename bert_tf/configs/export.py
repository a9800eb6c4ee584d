"""The configuration of an exported model."""

import dataclasses
from typing import Annotated

from bert_tf.configs.base import REQUIRED, Config, option
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.task_names import EXPORTED_TASKS
from bert_tf.errors import UserError
from bert_tf.io.json_files import Count, Limits, Positive

# Option -> its valid values with format=onnx.
_ONNX_OPTIONS = {
    "inputs": ("ids",),
    "sequence_buckets": (),
    "weights": ("float32", "int8"),
    "dtype": ("float32",),
    "skip_padding": (False,),
    "warm_up": (False,),
}


@dataclasses.dataclass(frozen=True)
class ServingConfig(Config):
    """Exported model: the options of all tasks.

    `format="onnx"` writes a model of ids for ONNX Runtime, with float32 or int8 weights.

    In Python, `dtype=None` keeps the model's dtypes. By default, `skip_padding` (see `TokenLayout`)
    is off with `sequence_buckets`, which serve devices and compilers that need few shapes, and with
    `inputs="ids"`, because model converters may lack the operations. It must be off for tasks whose
    answers depend on the outputs at padding.
    """

    inputs: str = option(
        "text",
        "Inputs of the model. text: strings, or ids in a second signature; requires "
        "tensorflow-text. ids: token ids; requires only TensorFlow.",
        choices=("text", "ids"),
    )
    sequence_buckets: tuple[int, ...] = option(
        (),
        "Sequence lengths to pad to, such as 32,64,128. Default: the longest sequence of a batch.",
        requires=("inputs", "text"),
    )
    weights: str | None = option(
        None,
        "Storage dtype of the weights. bfloat16 halves the file size and int8 quarters it. "
        "Default: dtype.",
        choices=("float32", "bfloat16", "int8"),
    )
    dtype: str | None = option(
        "float32",
        "Compute dtype. bfloat16 is faster on CPUs with bfloat16 instructions.",
        choices=("float32", "bfloat16", "float16"),
    )
    skip_padding: bool | None = option(
        None,
        "Whether to skip computation on padding. XLA, TPUs and model converters do not support "
        "it. Default: true for text inputs without sequence_buckets.",
    )
    warm_up: bool = option(True, "Whether to write warm-up requests for TF Serving.")
    format: str = option(
        "savedmodel",
        "savedmodel: for TF Serving and TensorFlow. onnx: token ids, for ONNX Runtime; faster for "
        "single texts on a CPU.",
        choices=("savedmodel", "onnx"),
    )

    def validate(self):
        super().validate()
        for name, values in _ONNX_OPTIONS.items() if self.format == "onnx" else ():
            if self.is_given(name) and (value := getattr(self, name)) not in values:
                raise UserError(f"`{name}={value}` cannot be combined with `format=onnx`")

    @property
    def stored_type(self):
        return self.weights or self.dtype or "float32"

    @property
    def skips_padding(self):
        """`skip_padding` with its default resolved."""
        default = self.inputs == "text" and not self.sequence_buckets
        return default if self.skip_padding is None else self.skip_padding


@dataclasses.dataclass(frozen=True)
class ExportConfig(Config):
    """Model to export and its destination."""

    export_dir: str = option(
        REQUIRED, "Folder for all versions of the model; each is a numbered subfolder."
    )
    model_dir: str | None = option(
        None, "output_dir of the run that trained the model, or a Hugging Face folder."
    )
    checkpoint: str | None = option(
        None, "Checkpoint of the run in model_dir. Default: the newest.", requires="model_dir"
    )
    task: str | None = option(
        None,
        "Without model_dir: task of the pre-trained model. Default: determined by its head.",
        choices=EXPORTED_TASKS,
    )
    labels: tuple[str, ...] = option(
        (),
        "Without model_dir: labels of the model. Default: those next to the checkpoint.",
        requires=("task", "classification", "multi_label", "token_classification"),
    )
    max_seq_length: Positive | None = option(
        None,
        "Without model_dir: maximum sequence length. Default: 128, or 384 for "
        "question_answering, but at most what the model supports.",
        requires="task",
    )
    num_texts: Annotated[int, Limits(1, 2)] = option(
        1,
        "For classification, multi_label and regression: number of input texts.",
        requires=("task", "classification", "multi_label", "regression"),
    )
    version_2_with_negative: bool = option(
        False,
        "For question_answering: whether some questions have no answer.",
        requires=("task", "question_answering"),
    )
    num_best: Positive = option(
        5, "For fill_mask: number of predictions per mask.", requires=("task", "fill_mask")
    )
    version: Count | None = option(None, "Version number. Default: the next free one.")
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    serving: ServingConfig = dataclasses.field(default_factory=ServingConfig)
