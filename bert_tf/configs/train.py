"""Configurations of training: the loop, the optimizer, the devices and fine-tuning."""

import dataclasses
from typing import Annotated

from bert_tf.configs.base import REQUIRED, Config, option
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.task import DataOptions, TaskConfig, check_length
from bert_tf.errors import UserError
from bert_tf.io.json_files import Count, Fraction, Limits, NotNegative, Positive

# The inputs of a larger batch alone would take gigabytes.
_BatchSize = Annotated[int, Limits(1, 2**20)]
# TensorFlow counts loop iterations in int32.
MAX_STEPS = 2**31 - 1
_Epochs = Annotated[float, Limits(0.0, MAX_STEPS)]
# All processes start at once, so a typo could exhaust the machine.
MAX_PROCESSES = 1024


@dataclasses.dataclass(frozen=True)
class TrainConfig(Config):
    """Training loop: batches, schedule, precision and checkpoints."""

    train_batch_size: _BatchSize = option(32, "Total batch size for training.")
    eval_batch_size: _BatchSize = option(8, "Total batch size for evaluation.")
    predict_batch_size: _BatchSize = option(8, "Total batch size for prediction.")
    num_train_epochs: _Epochs = option(3.0, "Total number of training epochs.")
    save_checkpoints_steps: Positive = option(1000, "Number of steps between checkpoints.")
    iterations_per_loop: Positive = option(
        1000, "Maximum number of steps to run on the devices before returning to the host."
    )
    gradient_accumulation_steps: Positive = option(
        1, "Number of micro-batches per step, which share train_batch_size. Saves memory."
    )
    recompute: bool = option(
        False,
        "Recompute activations in the backward pass. Saves much memory; steps take a third longer.",
    )
    dtype: str = option(
        "float32",
        "Compute dtype; weights stay in float32. float16 scales the loss.",
        choices=("float32", "bfloat16", "float16"),
    )
    attention_probs_dropout_prob: Fraction | None = option(
        None,
        "Dropout rate of the attention probabilities while training; with 0, JAX uses cuDNN's "
        "attention on a GPU. Default: the rate in bert_config_file.",
    )
    xla: bool | None = option(
        None, "Compile training steps with XLA. Default: on a GPU, for 2,000 steps or more."
    )
    num_frozen_layers: Count = option(
        0, "Freeze the embeddings and this many of the lowest layers; 0 for none."
    )
    eval_steps: Count = option(0, "Steps between evaluations during training; 0 to disable.")
    best_metric: str | None = option(
        None,
        "Metric that selects the best checkpoint, which is saved in output_dir/best and used for "
        "evaluation and prediction. Losses are minimized, other metrics maximized.",
    )
    early_stopping_patience: Count = option(
        0,
        "Stop after this many evaluations without a better best_metric; 0 for never.",
        requires="best_metric",
    )
    seed: Annotated[int, Limits(0, 2**32 - 1)] = option(
        0, "Random seed for weight initialization, dropout and shuffling."
    )
    pad_to_max_length: bool = option(
        False, "Pad batches to max_seq_length, as on a TPU, rather than to the longest sequence."
    )
    bucket_by_length: bool = option(
        False,
        "Batch training examples of similar length: faster, because there is less padding, but "
        "less random. No effect if batches are padded to max_seq_length.",
    )

    @property
    def dtype_policy(self):
        """The Keras dtype policy: float32 weights, computation in `dtype`."""
        return self.dtype if self.dtype == "float32" else f"mixed_{self.dtype}"

    def num_train_steps(self, count, unit):
        """Return the steps of `num_train_epochs` over `count` examples, called `unit` in errors."""
        if (steps := count / self.train_batch_size * self.num_train_epochs) < 1:
            raise UserError(
                f"`train_batch_size={self.train_batch_size}`: found only {count} {unit} for "
                f"{self.num_train_epochs} epochs, less than one batch; use a smaller batch size"
            )
        return int(steps)


@dataclasses.dataclass(frozen=True)
class BatchConfig(Config):
    """The batches of a `Task`."""

    batch_size: _BatchSize = option(
        32, "Number of rows of maximum length per batch; a batch of shorter rows may have more."
    )


@dataclasses.dataclass(frozen=True)
class FitConfig(BatchConfig):
    """The arguments of `Task.fit`."""

    epochs: Positive = option(3, "Number of training epochs.")
    validation_split: Fraction = option(0.0, "Fraction of the examples to use for validation.")
    shuffle: bool = option(True, "Whether to shuffle the examples.")
    bucket_by_length: bool = option(
        False, "Whether to batch examples of similar length.", requires="shuffle"
    )
    steps_per_epoch: Positive | None = option(None, "Number of batches per epoch.")
    validation_batch_size: _BatchSize | None = option(None, "Default: batch_size.")
    validation_steps: Positive | None = option(
        None, "Number of batches to validate: the first validation_steps x batch size examples."
    )
    output_dir: str | None = option(
        None, "Folder of a run, with checkpoints as in the scripts; the same call resumes it."
    )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(Config):
    """Optimizer: its type and learning-rate schedule, see `optimization.make_optimizer`.

    `warmup_proportion` applies if `num_warmup_steps` is not given.
    """

    optimizer: str = option(
        "bert_adam",
        "bert_adam: the release's optimizer. adamw: with bias correction. lamb: for large batches.",
        choices=("bert_adam", "adamw", "lamb"),
    )
    learning_rate: NotNegative = option(
        5e-5, "The peak learning rate, reached at the end of the warm-up."
    )
    layer_decay: Fraction = option(
        1.0, "Factor of the learning rate from each layer to the one below."
    )
    warmup_proportion: Fraction = option(
        0.1, "Fraction of the training steps for linear learning-rate warm-up."
    )
    num_warmup_steps: Count | None = option(
        None, "Number of warm-up steps.", excludes=("warmup_proportion",)
    )


@dataclasses.dataclass(frozen=True)
class DeviceConfig(Config):
    """Devices: the CPU, GPUs or a Cloud TPU."""

    use_tpu: bool = option(False, "Whether to run on a Cloud TPU.")
    tpu_name: str | None = option(
        None, "Name or grpc://host:port address of the Cloud TPU, or 'local' on a TPU VM."
    )
    tpu_zone: str | None = option(None, "Zone of the Cloud TPU. Default: detected.")
    gcp_project: str | None = option(None, "Project of the Cloud TPU. Default: detected.")
    master: str | None = option(None, "TensorFlow master address, an older name for tpu_name.")
    num_tpu_cores: Positive = option(8, "Expected number of TPU cores.")
    distribution_strategy: str = option(
        "auto",
        "auto: the workers in the environment variable TF_CONFIG if it is set, else all GPUs of "
        "this machine, else the CPU.",
        choices=("auto", "one_device", "mirrored", "multi_worker"),
    )

    def check_dtype(self, dtype):
        """Raise UserError if the devices do not support `dtype`."""
        if dtype == "float16" and self.use_tpu:
            raise UserError("`dtype=float16`: TPUs do not support float16; use bfloat16")


@dataclasses.dataclass(frozen=True)
class RunConfig(Config):
    """Base class of the configurations of runs."""

    def validate(self):
        super().validate()
        actions = [x.name for x in dataclasses.fields(self) if x.name.startswith("do_")]
        if not any(getattr(self, name) for name in actions):
            names = ", ".join(f"`{name}`" for name in actions)
            raise UserError(f"at least one of {names} must be set")
        if self.train.best_metric and self.do_train and not self.train.eval_steps:
            raise UserError(f"`best_metric={self.train.best_metric}` requires `eval_steps`")
        self.device.check_dtype(self.train.dtype)

    def check_model(self, config):
        """Raise UserError if a model with this `BertConfig` does not support an option."""
        check_length(self.max_seq_length, config)
        if self.train.num_frozen_layers > config.num_hidden_layers:
            raise UserError(
                f"`num_frozen_layers={self.train.num_frozen_layers}`: expected at most "
                f"{config.num_hidden_layers}, the number of layers in the model"
            )


@dataclasses.dataclass(frozen=True)
class FineTuneConfig(RunConfig):
    """Fine-tuning run, see `training.fine_tune`.

    Attributes:
      data: the options of the data of the task, such as `ClassificationData`.
      task_config: the options of the model of the task, such as `ClassificationConfig`; None for
        the defaults or, without training, for the values of the trained model.
      model, train, optimizer, device: the other options.
    """

    output_dir: str = option(REQUIRED, "Folder for checkpoints, summaries and results.")
    data: DataOptions = option(REQUIRED, None)
    task_config: TaskConfig | None = None
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(False, "Whether to evaluate.")
    do_predict: bool = option(False, "Whether to predict.")

    @property
    def splits(self):
        """The splits needed, a tuple of "train", "dev" and "test"."""
        needs_dev = self.do_eval or (self.do_train and self.train.eval_steps > 0)
        needed = {"train": self.do_train, "dev": needs_dev, "test": self.do_predict}
        return tuple(split for split, is_needed in needed.items() if is_needed)

    @property
    def max_seq_length(self):
        return self.task_config.max_seq_length

    def validate(self):
        super().validate()
        self.data.check_run(self)
