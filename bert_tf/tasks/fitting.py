"""Support for `Task.fit`: its options, the state of `compile`, and training in `output_dir`."""

import dataclasses
import inspect
import math

import keras

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.base import unknown_option
from bert_tf.configs.train import FineTuneConfig, FitConfig, OptimizerConfig, TrainConfig
from bert_tf.errors import UserError
from bert_tf.modeling.objective_model import RATE_CALLBACKS
from bert_tf.optimization import AdamWeightDecay, make_optimizer
from bert_tf.training.callbacks import EpochCallbacks
from bert_tf.training.engine import Engine
from bert_tf.training.fine_tuning import FineTuningRun

# Options of a `TrainConfig` and of other libraries -> the arguments of `fit` that replace them.
_OTHER_NAMES = {
    "dtype": "`dtype` of `from_preset`",
    "attention_probs_dropout_prob": "the value in bert_config.json",
    "num_train_epochs": "`epochs`",
    "train_batch_size": "`batch_size`",
    "x": "positional arguments",
    "y": "positional arguments",
    "lr": "`learning_rate`",
    # of transformers
    "per_device_train_batch_size": "`batch_size`",
    "eval_dataset": "`validation_data`",
    **dict.fromkeys(inspect.signature(keras.Model.compile).parameters, "`compile`"),
    **dict.fromkeys(
        inspect.signature(AdamWeightDecay).parameters, "`compile(bert_tf.AdamWeightDecay(...))`"
    ),
}


def pop_configs(options, task_options):
    """Remove the attributes of `FitConfig` and `OptimizerConfig` from the options of `fit`.

    `task_options` are the names of other options. Raises UserError if the rest has an unknown name.
    """
    for name in ("optimizer", "learning_rate"):
        if hasattr(value := options.get(name), "get_config") or callable(value):
            found = f"found {type(value).__name__}; use {_OTHER_NAMES[name]}"
            raise UserError(f"`{name}` of `fit`: {found}")
    config, optimizer_config = FitConfig.pop_from(options), OptimizerConfig.pop_from(options)
    of_loop = {x.name for x in dataclasses.fields(TrainConfig)} - _OTHER_NAMES.keys()
    of_keras = ("initial_epoch", "validation_freq")
    allowed = {"callbacks", "verbose", *(of_loop if config.output_dir else of_keras)}
    for name in sorted(options.keys() - allowed):
        if name in of_loop:
            raise UserError(f"`{name}` requires `output_dir`")
        if other := _OTHER_NAMES.get(name):
            raise UserError(f"`{name}` is not an option of this `fit`; use {other}")
        known = {*vars(config), *vars(optimizer_config), *task_options, *allowed}
        raise unknown_option(name, known, "this `fit`")
    return config, optimizer_config


def inner_optimizer(model):
    """Return the optimizer of a compiled model, which Keras wraps with float16."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


class CompileState:
    """What `compile` set for the Keras model of a task, and the default optimizer of `fit`.

    Attributes:
      arguments: the arguments of `keras.Model.compile` other than the optimizer.
      default_optimizer: the optimizer of the last `fit`, unless `compile` set one.
    """

    def __init__(self, model):
        self.arguments, self.default_optimizer = {}, None
        self._model = model
        self._key = None  # what the compiled training step depends on

    @property
    def own_optimizer(self):
        """The optimizer set by `compile`, or None."""
        optimizer = inner_optimizer(self._model) if self._model.compiled else None
        return None if optimizer is self.default_optimizer else optimizer

    @property
    def has_own_scores(self):
        """Whether `compile` set a loss or metrics."""
        return self._model.is_compiled_with("loss", "metrics", "weighted_metrics")

    def set(self, optimizer, arguments):
        """Compile the model with an optimizer, or None for the default."""
        default = None if optimizer else keras.optimizers.SGD()  # until `fit` is called
        with Engine.of(self._model).scope():
            self._model.compile(optimizer or default, **arguments)
        self.arguments, self.default_optimizer, self._key = arguments, default, None

    def prepare(self, optimizer_config, objective, num_steps):
        """Set the objective of the model and, without an own optimizer, a new optimizer."""
        model = self._model
        if self.own_optimizer:
            for name in filter(optimizer_config.is_given, vars(optimizer_config)):
                raise UserError(f"`{name}` cannot be combined with an optimizer set by `compile`")
            if self._key != objective.key:
                model.objective, self._key = objective, objective.key
                # Keep what `compile` set, but trace the steps again.
                model.train_function = model.test_function = None
            return
        variables = tuple(map(id, model.trainable_variables))
        key = (optimizer_config, num_steps, variables, objective.key)
        if key == self._key:  # the compiled training step can be reused
            for variable in self.default_optimizer.variables:
                variable.assign(keras.ops.zeros_like(variable))
            return
        model.objective = objective
        with Engine.of(model).scope():
            self.default_optimizer = make_optimizer(optimizer_config, num_steps)
            model.compile(self.default_optimizer, **self.arguments)
        self._key = key


class FitRun(FineTuningRun):
    """A run that trains the model of an object, with Keras callbacks at the end of each epoch."""

    batch_option = "batch_size"

    def __init__(self, task, config, data, engine, callbacks):
        super().__init__(type(task), config, data, engine, PretrainedFiles())
        self.loop_options["is_loaded"] = True
        self.task, self._callbacks, self.epochs = task, callbacks, None

    def make_task(self):
        return self.task

    def num_train_steps(self):
        """Return the number of steps with whole batches per epoch, as in Keras."""
        train = self.config.train
        num_batches = math.ceil(self.num_records("train") / train.train_batch_size)
        return num_batches * int(train.num_train_epochs)

    def training_inputs(self):
        *inputs, _ = super().training_inputs()
        self.task.config = self.data.config  # with the values of an earlier run in the folder
        num_epochs = int(self.config.train.num_train_epochs)
        self.epochs = EpochCallbacks(self.task.model, self._callbacks, num_epochs, self.num_steps)
        return *inputs, self.epochs


def fit_in_folder(task, data, config, optimizer_config, callbacks, options):
    """Train as the scripts do, and call Keras callbacks after each epoch.

    Args:
      task: the `Task`.
      data: the `RunData`.
      config: the `FitConfig`.
      optimizer_config: the `OptimizerConfig`.
      callbacks: list of Keras callbacks.
      options: the other arguments of `fit`, options of a `TrainConfig`.

    Returns:
      The `keras.callbacks.History`.
    """
    if not task.config_class.FILE:
        raise UserError(f"`output_dir` is not supported by {type(task).__name__}")
    options.pop("verbose", None)  # the loop logs its progress
    train = TrainConfig.pop_from(
        options,
        dtype=task.model.compute_dtype,
        train_batch_size=config.batch_size,
        eval_batch_size=config.validation_batch_size or config.batch_size,
        num_train_epochs=float(config.epochs),
        bucket_by_length=config.bucket_by_length,
    )
    compiled = task._compiled
    unused = {
        "shuffle": not config.shuffle,
        "steps_per_epoch": config.steps_per_epoch,
        "validation_steps": config.validation_steps,
        "compile": compiled.arguments or compiled.own_optimizer,
        **{type(x).__name__: isinstance(x, RATE_CALLBACKS) for x in callbacks},
    }
    for name in filter(unused.get, unused):
        raise UserError(f"`{name}` cannot be combined with `output_dir`")
    if train.eval_steps and not data.splits("dev"):
        raise UserError("`eval_steps` requires `validation_data`")
    count, unit = task.training_size(data)
    if count is not None and count < config.batch_size:
        raise UserError(f"`batch_size={config.batch_size}`: found only {count} {unit}")
    run_config = FineTuneConfig(
        config.output_dir, data.options, data.config,
        train=train, optimizer=optimizer_config, do_train=True,
    )  # fmt: skip
    data.config.check_folder(config.output_dir)
    run_config.check_model(data.config.bert_config)
    run = FitRun(task, run_config, data, Engine.of(task.model), callbacks)
    skip_padding = task.model.skip_padding
    try:
        run.run()
    finally:
        task.model.skip_padding = skip_padding
    return run.epochs.callbacks._history
