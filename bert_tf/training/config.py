"""Typed configuration of a run: the model's files, training, optimizer and devices.

The names and defaults are those of the scripts' flags.
"""

import dataclasses
import os
from typing import Any

import tensorflow as tf

from bert_tf import checkpoints, console, optimization
from bert_tf.errors import UserError
from bert_tf.tasks.classification.task import DistillationConfig
from bert_tf.training import checkpointing


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The files of a pre-trained model.

    Attributes:
      model: name of a published model, which provides those of the other fields that are None.
      bert_config_file: JSON file of a `BertConfig`.
      init_checkpoint: checkpoint to start from; not read if the output folder has one.
      vocab_file: the vocabulary.
      do_lower_case: whether the model is uncased; None to infer it.
    """

    model: str | None = None
    bert_config_file: str | None = None
    init_checkpoint: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None

    def resolve(self, *required):
        """Return this config with the files of `model`; UserError if a required one is missing."""
        config = self
        if self.model:
            preset = checkpoints.fetch(self.model)
            values = {
                "bert_config_file": preset.config,
                "init_checkpoint": preset.checkpoint,
                "vocab_file": preset.vocab,
                "do_lower_case": preset.do_lower_case,
            }
            missing = {name: x for name, x in values.items() if getattr(self, name) is None}
            config = dataclasses.replace(self, **missing)
        for name in required:
            if not getattr(config, name):
                raise UserError(f"`{name}` or `model` must be given")
        return config


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How a run trains, apart from its data, its optimizer and its devices.

    Attributes:
      train_batch_size, eval_batch_size, predict_batch_size: examples over all devices.
      num_train_epochs: passes over the training set, when fine-tuning.
      save_checkpoints_steps: steps between two checkpoints.
      iterations_per_loop: maximum number of steps between two returns to the host.
      gradient_accumulation_steps: number of micro-batches into which each replica's share of a
        batch is split, to use less memory; a step still uses the whole batch.
      recompute: recompute the inside of each layer in the backward pass instead of storing it, to
        use less memory.
      dtype: "float32", "bfloat16" or "float16": the type to compute in. Weights are float32.
      xla: compile the forward and backward pass of training with XLA; None for only on a GPU.
      num_frozen_layers: number of lowest layers that are not trained; if there are any, the
        embeddings are not trained either.
      eval_steps: steps between two evaluations during training, 0 for none; if there are any, the
        last step is evaluated too.
      best_metric: the metric whose best checkpoint is kept, None for none.
      early_stopping_patience: number of evaluations without improvement after which training
        stops, 0 for never.
      seed: of weights, dropout and the order of the input.
      pad_to_max_length: pad every batch to `max_seq_length` instead of to its longest sequence.
    """

    train_batch_size: int = 32
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    num_train_epochs: float = 3.0
    save_checkpoints_steps: int = 1000
    iterations_per_loop: int = 1000
    gradient_accumulation_steps: int = 1
    recompute: bool = False
    dtype: str = "float32"
    xla: bool | None = None
    num_frozen_layers: int = 0
    eval_steps: int = 0
    best_metric: str | None = None
    early_stopping_patience: int = 0
    seed: int = 0
    pad_to_max_length: bool = False

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
        """Raise UserError if the model of a `BertConfig` has fewer than `num_frozen_layers`."""
        if self.num_frozen_layers > config.num_hidden_layers:
            raise UserError(
                f"`num_frozen_layers={self.num_frozen_layers}`, but the model has "
                f"{config.num_hidden_layers} layers"
            )

    def check_batch_sizes(self, strategy, train=True, eval=True, predict=True):
        """Raise UserError if a batch size in use does not divide over the devices."""
        if train:
            per_replica(
                self.train_batch_size, strategy, "train_batch_size",
                self.gradient_accumulation_steps,
            )  # fmt: skip
        if eval:
            per_replica(self.eval_batch_size, strategy, "eval_batch_size")
        if predict:
            per_replica(self.predict_batch_size, strategy, "predict_batch_size")

    def num_train_steps(self, count, unit):
        """Return the steps of `num_train_epochs` over `count` examples, called `unit` in errors."""
        steps = int(count / self.train_batch_size * self.num_train_epochs)
        if steps < 1:
            raise UserError(
                f"{count} {unit} for {self.num_train_epochs} epochs are less than one batch of "
                f"`train_batch_size={self.train_batch_size}`; use a smaller one"
            )
        return steps


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its schedule.

    Attributes:
      optimizer: "bert_adam" as in the release, "adamw" with bias correction, or "lamb".
      learning_rate: the peak learning rate.
      layer_decay: learning rate of a layer as a fraction of that of the layer above it.
      warmup_proportion: fraction of the steps that warm up, when fine-tuning.
    """

    optimizer: str = "bert_adam"
    learning_rate: float = 5e-5
    layer_decay: float = 1.0
    warmup_proportion: float = 0.1

    def make(self, num_train_steps, num_warmup_steps=None):
        """Make the optimizer, not built yet.

        Args:
          num_train_steps: the step where the learning rate reaches 0.
          num_warmup_steps: None for `warmup_proportion` of the steps.
        """
        if num_warmup_steps is None:
            num_warmup_steps = int(num_train_steps * self.warmup_proportion)
        if num_warmup_steps >= num_train_steps:
            console.warning(
                "%d warm-up steps are not less than %d training steps: the learning rate never "
                "reaches `learning_rate`",
                num_warmup_steps, num_train_steps,
            )  # fmt: skip
        rate = optimization.linear_warmup_decay(
            self.learning_rate, num_train_steps, num_warmup_steps
        )
        return optimization.OPTIMIZERS[self.optimizer](rate, layer_decay=self.layer_decay)


@dataclasses.dataclass(frozen=True)
class DeviceConfig:
    """Where the model runs.

    Attributes:
      use_tpu: whether to run on a Cloud TPU.
      tpu_name: its name, grpc:// address, or "local" on a TPU VM.
      tpu_zone, gcp_project: its zone and project; inferred if None.
      master: its address, the release's older name for `tpu_name`.
      num_tpu_cores: expected number of cores.
      distribution_strategy: without a TPU: "auto", "one_device", "mirrored" or "multi_worker".
    """

    use_tpu: bool = False
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None
    num_tpu_cores: int = 8
    distribution_strategy: str = "auto"

    def check_dtype(self, dtype):
        """Raise UserError if the devices do not compute in `dtype`."""
        if dtype == "float16" and self.use_tpu:
            raise UserError("`dtype=float16`: TPUs compute in bfloat16, not in float16")


@dataclasses.dataclass(frozen=True)
class FineTuneConfig:
    """All settings of `fine_tune`.

    Attributes:
      output_dir: folder for checkpoints, summaries and results.
      task: the `TaskOptions` of the task.
      model: a `ModelConfig`.
      train: a `TrainConfig`.
      optimizer: an `OptimizerConfig`.
      device: a `DeviceConfig`.
      do_train, do_eval, do_predict: what to do.
      num_seeds: number of runs, with seed, seed + 1, ..., each in its own folder.
      teacher_dir: output folder of a fine-tuned model to learn from.
      distillation: a `DistillationConfig`, if there is a `teacher_dir`.
    """

    output_dir: str
    task: Any
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    num_seeds: int = 1
    teacher_dir: str | None = None
    distillation: DistillationConfig | None = None

    @property
    def is_resumed(self):
        """Whether the output folder has a checkpoint."""
        return checkpointing.latest(self.output_dir) is not None

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
        """Raise UserError for values that cannot be combined, before any data are read."""
        if not (self.do_train or self.do_eval or self.do_predict):
            raise UserError("one of `do_train`, `do_eval` and `do_predict` must be set")
        self.train.check(self.do_train)
        self.device.check_dtype(self.train.dtype)
        if self.num_seeds > 1 and not self.do_eval:
            console.warning("`num_seeds` without `do_eval`: there will be no eval_seeds.tsv")
        if self.teacher_dir:
            self._check_teacher(spec)

    def _check_teacher(self, spec):
        if not spec.can_distill:
            raise UserError(f"`teacher_dir` is not supported by {spec.name}")
        output_dir = os.path.normpath(self.output_dir)
        best = os.path.join(output_dir, checkpointing.BEST)
        if os.path.normpath(self.teacher_dir) in (output_dir, best):
            raise UserError("`teacher_dir`: a model cannot be its own teacher")
        if not self.do_train:
            console.warning("`teacher_dir` has no effect without `do_train`")


def per_replica(batch_size, strategy, argument, parts=1):
    """Check that a global batch divides over the replicas, and each replica's share into `parts`.

    Returns:
      The batch size of one replica.

    Raises:
      UserError: with the nearest sizes that do divide.
    """
    replicas = strategy.num_replicas_in_sync
    unit = replicas * parts
    if batch_size % unit:
        below = batch_size // unit * unit
        nearest = f"{below} or {below + unit}" if below else f"{unit}"
        plural = "s" if replicas > 1 else ""
        accumulation = f" with `gradient_accumulation_steps={parts}` each" if parts > 1 else ""
        raise UserError(
            f"`{argument}={batch_size}` does not divide over {replicas} replica{plural}"
            f"{accumulation}; the nearest that do: {nearest}"
        )
    return batch_size // replicas


def use_xla(xla, strategy):
    """Return whether to compile training steps with XLA; `xla` None leaves it to the devices.

    It is faster on a GPU and slower on a CPU. A TPU compiles everything by itself; there
    `jit_compile` must not be set.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    if xla is None:
        return bool(tf.config.list_logical_devices("GPU"))
    return xla
