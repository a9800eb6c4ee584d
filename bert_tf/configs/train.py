"""Typed configuration of a run, from which the flags of the scripts are made.

Each option is declared once, as a field with its default and help. `cli.flags.define_options` makes
a flag of it, and `documented` adds it to the docstring of its class. Nothing here needs TensorFlow.
"""

import dataclasses
import math
import os
import textwrap

from bert_tf import console
from bert_tf.errors import UserError

# The inputs alone of a larger batch would take gigabytes.
_MAX_BATCH_SIZE = 2**20
# TensorFlow counts the steps of a loop in 32 bits.
_MAX_STEPS = 2**31 - 1
# All processes start at once, so a mistyped number would use up the machine.
MAX_PROCESSES = 1024

PARTS = ("train", "dev", "test")


def option(default, help, **flag):
    """Declare an option of a configuration dataclass.

    Args:
      default: the default. None means "not given": the trained model or the task decides.
      help: what the option does, one or two sentences.
      **flag: of its flag: `choices`, `minimum`, `maximum`, or `flag_default`, which --help shows
        instead of None.
    """
    return dataclasses.field(default=default, metadata={"help": help, **flag})


def check_bounds(config):
    """Raise UserError for a number of a configuration that is outside of its option's bounds."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            check_bounds(value)
        if type(value) not in (int, float):
            continue
        low, high = field.metadata.get("minimum"), field.metadata.get("maximum")
        bounds = [f"at least {low}"] if low is not None else []
        bounds += [f"at most {high}"] if high is not None else []
        is_valid = (low is None or value >= low) and (high is None or value <= high)
        # TensorFlow's integers have 64 bits.
        limit = math.inf if type(value) is float else 2**63
        is_finite = -limit < value < limit if bounds else value == value
        if not is_finite or not is_valid:
            expected = " and ".join(["a finite number", *bounds])
            raise UserError(f"`{field.name}={value}`: expected {expected}")


def documented(cls):
    """Add the help of each option to the docstring of a configuration dataclass."""
    lines = []
    for field in dataclasses.fields(cls):
        text = f"{field.name}: {field.metadata.get('help', 'see the class.')}"
        lines += textwrap.wrap(text, 90, initial_indent="  ", subsequent_indent="    ")
    cls.__doc__ += "\n\nAttributes:\n" + "\n".join(lines) + "\n"
    return cls


@documented
@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The files of a pre-trained model."""

    model: str | None = option(
        None,
        "Model of the 2018 release by name, such as uncased_L-12_H-768_A-12, or a folder of the "
        "release, of Hugging Face or of a training run; provides bert_config_file, "
        "init_checkpoint, vocab_file and do_lower_case if not given. (bert_tf)",
    )
    bert_config_file: str | None = option(
        None,
        "JSON file with the sizes of the BERT model; the one next to init_checkpoint if not given.",
    )
    init_checkpoint: str | None = option(
        None,
        "Checkpoint to start from (usually a pre-trained BERT model). Not read when output_dir "
        "already has a checkpoint: then that run is resumed.",
    )
    vocab_file: str | None = option(
        None,
        "The vocabulary that the BERT model was trained on, or a tokenizer.json; the one next to "
        "init_checkpoint if not given.",
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower case the text: True for uncased models, False for cased ones.",
        flag_default=True,
    )
    strip_accents: bool | None = option(
        None,
        "Whether to strip accents; if not given, as in the files of the model, else as "
        "do_lower_case. (bert_tf)",
    )
    tokenize_chinese_chars: bool | None = option(
        None,
        "Whether each Chinese character is a word; if not given, as in the files of the model, "
        "else true. (bert_tf)",
    )


@documented
@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How a run trains, apart from its data, its optimizer and its devices."""

    train_batch_size: int = option(
        32, "Total batch size for training.", minimum=1, maximum=_MAX_BATCH_SIZE
    )
    eval_batch_size: int = option(
        8, "Total batch size for evaluation.", minimum=1, maximum=_MAX_BATCH_SIZE
    )
    predict_batch_size: int = option(
        8, "Total batch size for prediction.", minimum=1, maximum=_MAX_BATCH_SIZE
    )
    num_train_epochs: float = option(3.0, "Number of passes over the training set.", minimum=0.0)
    save_checkpoints_steps: int = option(
        1000, "How often to save a checkpoint, in steps.", minimum=1
    )
    iterations_per_loop: int = option(
        1000,
        "Maximum number of steps on the devices before control returns to the host.",
        minimum=1,
    )
    gradient_accumulation_steps: int = option(
        1,
        "Number of parts in which each device processes its share of train_batch_size, to use less "
        "memory; a step is still that of the whole batch. (bert_tf)",
        minimum=1,
    )
    recompute: bool = option(
        False,
        "Recompute the inside of each layer in the backward pass instead of storing it: much less "
        "memory, about a third more time. (bert_tf)",
    )
    dtype: str = option(
        "float32",
        "Type to compute in; weights are float32. float16 uses loss scaling. (bert_tf)",
        choices=("float32", "bfloat16", "float16"),
    )
    xla: bool | None = option(
        None,
        "Compile training steps with XLA; by default on a GPU for 2,000 steps or more. (bert_tf)",
    )
    num_frozen_layers: int = option(
        0,
        "Number of lowest layers that are not trained, and the embeddings with them. (bert_tf)",
        minimum=0,
    )
    eval_steps: int = option(
        0, "How often to evaluate during training, in steps; 0 for never. (bert_tf)", minimum=0
    )
    best_metric: str | None = option(
        None,
        "Metric by which to keep the best checkpoint, in output_dir/best, which is then used for "
        "evaluation and prediction. Lower is better for a loss, higher for other metrics. "
        "(bert_tf)",
    )
    early_stopping_patience: int = option(
        0,
        "Stop after this number of evaluations without a better best_metric; 0 for never. "
        "(bert_tf)",
        minimum=0,
    )
    seed: int = option(
        0,
        "Seed of initial weights, dropout and the order of the input. (bert_tf)",
        minimum=0,
        maximum=2**32 - 1,
    )
    pad_to_max_length: bool = option(
        False,
        "Pad every batch to max_seq_length, as on a TPU, instead of to its longest sequence. "
        "(bert_tf)",
    )
    bucket_by_length: bool = option(
        False,
        "Make training batches of examples of similar length: faster, because they need less "
        "padding, but the batches are less random. No effect where batches are padded to "
        "max_seq_length. (bert_tf)",
    )

    @property
    def dtype_policy(self):
        """The Keras dtype policy: weights in float32, computation in `dtype`."""
        return self.dtype if self.dtype == "float32" else f"mixed_{self.dtype}"

    def check(self, do_train=True):
        """Raise UserError for values that cannot be combined."""
        if self.best_metric and do_train and not self.eval_steps:
            raise UserError(f"`best_metric={self.best_metric}` requires `eval_steps`")
        if self.eval_steps and not do_train:
            console.warning("`eval_steps` has no effect without `do_train`")
        if self.early_stopping_patience and not self.best_metric:
            raise UserError("`early_stopping_patience` requires `best_metric`")

    def check_frozen_layers(self, config):
        """Raise UserError if a `BertConfig` has fewer layers than are to be frozen."""
        if self.num_frozen_layers > config.num_hidden_layers:
            raise UserError(
                f"`num_frozen_layers={self.num_frozen_layers}`, but the model has "
                f"{config.num_hidden_layers} layers"
            )

    def num_train_steps(self, count, unit):
        """Return the steps of `num_train_epochs` over `count` examples, called `unit` in errors."""
        steps = count / self.train_batch_size * self.num_train_epochs
        if steps < 1:
            raise UserError(
                f"{count} {unit} for {self.num_train_epochs} epochs are less than one batch of "
                f"`train_batch_size={self.train_batch_size}`; use a smaller one"
            )
        if steps > _MAX_STEPS:
            raise UserError(
                f"`num_train_epochs={self.num_train_epochs}` would be {steps:.3g} steps, expected "
                f"at most {_MAX_STEPS}"
            )
        return int(steps)


@documented
@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its schedule; `optimization.make_optimizer` makes it."""

    optimizer: str = option(
        "bert_adam",
        "bert_adam is the release's; adamw also corrects the bias of the moments; lamb is for "
        "large batches. (bert_tf)",
        choices=("bert_adam", "adamw", "lamb"),
    )
    learning_rate: float = option(5e-5, "The initial learning rate.", minimum=0.0)
    layer_decay: float = option(
        1.0,
        "Learning rate of a layer as a share of that of the layer above it. (bert_tf)",
        minimum=0.0,
        maximum=1.0,
    )
    warmup_proportion: float = option(
        0.1, "Share of the steps to warm up in.", minimum=0.0, maximum=1.0
    )


@documented
@dataclasses.dataclass(frozen=True)
class DeviceConfig:
    """Where the model runs."""

    use_tpu: bool = option(False, "Whether to run on a Cloud TPU.")
    tpu_name: str | None = option(
        None, "The Cloud TPU: its name, a grpc://host:port address, or 'local' on a TPU VM."
    )
    tpu_zone: str | None = option(None, "Zone of the Cloud TPU, inferred if not given.")
    gcp_project: str | None = option(None, "Project of the Cloud TPU, inferred if not given.")
    master: str | None = option(None, "TensorFlow master address, the older name of tpu_name.")
    num_tpu_cores: int = option(8, "Expected number of TPU cores.")
    distribution_strategy: str = option(
        "auto",
        "auto uses the workers in the environment variable TF_CONFIG, else all GPUs of this "
        "machine (mirrored if there are several), else the CPU. (bert_tf)",
        choices=("auto", "one_device", "mirrored", "multi_worker"),
    )

    def check_dtype(self, dtype):
        """Raise UserError if the devices do not compute in `dtype`."""
        if dtype == "float16" and self.use_tpu:
            raise UserError("`dtype=float16`: TPUs compute in bfloat16, not in float16")


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """Base of the options of a task: its data, and how to read and learn from them.

    An option that is None has the value of the trained model in the output folder, else the default
    of the task's config.
    """

    max_seq_length: int | None = option(
        None, "Longest sequence in tokens; longer ones are truncated.", flag_default=128
    )

    def completed(self, config_class, stored=None):
        """Fill in options that are None from a run's `TaskConfig`, else from the class's defaults.

        Returns:
          (the completed options, list of the names taken from `stored`)
        """
        recorded = stored.recorded_options() if stored else {}
        known = {**config_class.default_options(), **recorded}
        names = [field.name for field in dataclasses.fields(self)]
        missing = [name for name in names if getattr(self, name) is None and name in known]
        options = dataclasses.replace(self, **{name: known[name] for name in missing})
        return options, [name for name in missing if name in recorded]

    def check(self, config, is_resumed):
        """Raise UserError for options that cannot be combined, before any data are read.

        `config` is the `FineTuneConfig`; `is_resumed`: whether the output folder has a checkpoint.
        """

    def is_given(self, name):
        """Return whether an option differs from its default."""
        return getattr(self, name) != getattr(type(self), name)


@documented
@dataclasses.dataclass(frozen=True)
class FineTuneConfig:
    """The configuration of `training.fine_tune`; `task` is the `TaskOptions` of the task."""

    output_dir: str = option(None, "Folder for checkpoints, summaries and results.")
    task: TaskOptions = dataclasses.field(default_factory=TaskOptions)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(False, "Whether to evaluate.")
    do_predict: bool = option(False, "Whether to predict.")
    num_seeds: int = option(
        1,
        "Number of runs, with seed, seed + 1, ..., each in a folder seed_N of output_dir; mean and "
        "spread go to eval_seeds.tsv. (bert_tf)",
        minimum=1,
    )
    teacher_dir: str | None = option(
        None,
        "output_dir of a fine-tuned model to learn from; its logits replace the labels, which must "
        "be the same, as must task_type and numeric_columns. (bert_tf)",
    )
    teacher_weight: float = option(
        1.0,
        "Share of the loss on the teacher's logits; the labels have the rest. (bert_tf)",
        minimum=0.0,
        maximum=1.0,
    )
    teacher_temperature: float = option(
        1.0,
        "Divisor of the logits of both models before they are compared. (bert_tf)",
        minimum=0.01,
    )

    @property
    def parts(self):
        """The set of "train", "dev" and "test" that are needed."""
        needed = {
            "train": self.do_train,
            "dev": self.do_eval or (self.do_train and self.train.eval_steps > 0),
            "test": self.do_predict,
        }
        return {part for part, is_needed in needed.items() if is_needed}

    def check(self, spec):
        """Raise UserError for values that cannot be combined; before any data are read."""
        check_bounds(self)
        if not (self.do_train or self.do_eval or self.do_predict):
            raise UserError("one of `do_train`, `do_eval` and `do_predict` must be set")
        self.train.check(self.do_train)
        self.device.check_dtype(self.train.dtype)
        if self.num_seeds > 1 and not self.do_eval:
            console.warning("`num_seeds` without `do_eval`: there will be no eval_seeds.tsv")
        if not self.teacher_dir:
            for name in ("teacher_weight", "teacher_temperature"):
                if getattr(self, name) != getattr(type(self), name):
                    raise UserError(f"`{name}` requires `teacher_dir`")
            return
        if not spec.can_distill:
            raise UserError(f"`teacher_dir` is not supported by {spec.name}")
        output_dir = os.path.normpath(self.output_dir)
        if os.path.normpath(self.teacher_dir) in (output_dir, os.path.join(output_dir, "best")):
            raise UserError("`teacher_dir`: a model cannot be its own teacher")
        if not self.do_train:
            console.warning("`teacher_dir` has no effect without `do_train`")
