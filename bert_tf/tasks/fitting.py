"""`fit` and `evaluate` of the classes: in memory by Keras, or in a folder by the scripts' loop."""

import dataclasses
import warnings
from typing import Any

import keras
import numpy as np

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.train import FineTuneConfig, FitConfig, OptimizerConfig, TrainConfig
from bert_tf.data.containers import split_last
from bert_tf.data.input_pipeline import FitInput, length_multiple
from bert_tf.errors import UserError
from bert_tf.modeling.task_model import RATE_CALLBACKS
from bert_tf.optimization import make_optimizer
from bert_tf.training.fine_tuning import FineTuning
from bert_tf.training.prediction import BatchRunner, ModelCache, parse_rows
from bert_tf.training.progress import AddScores, CheckLoss
from bert_tf.training.strategy import divide_batches, model_strategy, use_xla
from bert_tf.training.task import TaskSpec

# Options of a `TrainConfig` -> the arguments that replace them.
_OTHER_NAMES = {
    "dtype": "`dtype` of `from_preset`",
    "num_train_epochs": "`epochs`",
    "train_batch_size": "`batch_size`",
}

# The loss of a task -> the activation that makes probabilities of its logits.
ACTIVATIONS = {"sparse_categorical_crossentropy": "softmax", "binary_crossentropy": "sigmoid"}


class Trainable(TaskSpec):
    """Base class of `Pipeline`, which describes its attributes: training and evaluation."""

    model: Any
    config: Any
    tokenizer: Any
    _cache: ModelCache
    # The first arguments of `fit` and `evaluate`, for messages.
    arguments: tuple[str, ...] = ("texts", "labels")
    # Whether the model has a head that is not pre-trained, and the loss' name in Keras.
    has_head = True
    keras_loss = "sparse_categorical_crossentropy"
    # The optimizer unless one was given, and the arguments of `compile`.
    _default_optimizer = None
    _compile_arguments: dict[str, Any] = {}  # noqa: RUF012
    # Whether the head was neither loaded nor trained.
    _is_random = False
    # What the compiled training step depends on.
    _fit_key: tuple | None = None

    def _examples(self, columns, names, split):
        """Return the examples of the columns of `fit`, which have `names` in messages."""
        raise NotImplementedError

    def _trained_config(self, examples):
        """Return the config after training on a dict from split to examples."""
        return self.config

    def _data(self, examples, **options):
        """Return the `TaskData` of a dict from split to examples, for `options` of `fit`."""
        raise NotImplementedError

    def compile(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Set your own optimizer, loss or metrics for `fit`; calling it is optional.

        Args:
          optimizer: a Keras optimizer; None for the release's, with 10 % warm-up and linear decay
            over the steps of each `fit`.
          loss: a loss of Keras, which gets rows of 0 and 1 and probabilities if it takes them, or a
            function of labels and logits; None, or the name of the task's cross entropy, for the
            loss of the task.
          metrics: metrics, likewise; None for the metrics of the task.
          **options: other arguments of `keras.Model.compile`, such as `jit_compile`.
        """
        if loss in (self.keras_loss, self.keras_loss.removeprefix("sparse_")):
            loss = None  # that of the task
        given = {"loss": loss, "metrics": metrics, **options}
        given = {name: x for name, x in given.items() if x is not None}
        default = None if optimizer else keras.optimizers.SGD()  # until `fit` is called
        with model_strategy(self.model).scope():
            self.model.compile(optimizer or default, **given)
        self._compile_arguments, self._default_optimizer, self._fit_key = given, default, None

    def save(self, *_: Any, **__: Any) -> None:
        """Raise a UserError: a Keras file would lack the vocabulary and the labels."""
        raise UserError("`save`: use `save_to_preset`, or `model.save` for the Keras model alone")

    def _fit(self, columns, validation_data, options, **task_options):
        """Train on the columns, the first arguments of `fit`; see `FitConfig` for the options."""
        config, optimizer_config = FitConfig.take(options), OptimizerConfig.take(options)
        self._check_options(config, options)
        if task_options.get("class_weight") is not None and self.model.is_compiled_with("loss"):
            raise UserError(
                "`class_weight` cannot be combined with a loss of `compile`; use `sample_weight`"
            )
        examples = {"train": self._examples(columns, self.arguments, "train")}
        if config.validation_split:
            if validation_data is not None:
                raise UserError("`validation_split` cannot be combined with `validation_data`")
            examples = split_last(examples["train"], config.validation_split)
        elif validation_data is not None:
            names = ["validation_data"] * len(self.arguments)
            examples["dev"] = self._examples(self._columns(validation_data), names, "dev")
        self.config = self._trained_config(examples)
        data = self._data(examples, **task_options)
        fit = self._fit_in_folder if config.output_dir else self._fit_in_memory
        callbacks = keras.tree.flatten(options.pop("callbacks", None) or [])
        history = fit(data, config, optimizer_config, callbacks, options)
        self._is_random = False
        return history

    def _check_options(self, config, options):
        """Raise UserError for names that `fit` does not have."""
        of_loop = {x.name for x in dataclasses.fields(TrainConfig)}
        for name in options:
            if name in _OTHER_NAMES:
                raise UserError(f"`{name}` is not an option of `fit`; use {_OTHER_NAMES[name]}")
            if name not in {*of_loop, "callbacks", "verbose", "initial_epoch"}:
                raise UserError(f"`{name}` is not supported by the `fit` of {type(self).__name__}")
            if name in of_loop and not config.output_dir:
                raise UserError(f"`{name}` requires `output_dir`")
            if name == "initial_epoch" and config.output_dir:
                raise UserError(f"`{name}` cannot be combined with `output_dir`")

    def _fit_in_memory(self, data, config, optimizer_config, callbacks, options):
        """Train with `keras.Model.fit`; see `_fit_in_folder` for the arguments."""
        task = data.make_task(self.model)
        batches, num_steps = self._batches(self._features(data, "train"), task, config)
        self._prepare_optimizer(optimizer_config, task, num_steps * config.epochs)
        data.start_training(self.model)
        if "dev" in data.examples:
            argument = None if config.validation_split else "validation_data"
            records = self._features(data, "dev", argument)
            callbacks.insert(0, AddScores(lambda: self._scores(task, records, config.batch_size)))
            if self._has_own_scores or not {"loss", "eval_loss"} & {*task.metric_names}:
                validation = self._validation(data, records, task, config.batch_size)
                options["validation_data"], options["validation_steps"] = validation
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist for variables")
            return self.model.fit(
                batches,
                epochs=config.epochs,
                steps_per_epoch=num_steps,
                shuffle=False,
                callbacks=[*callbacks, CheckLoss()],
                **options,
            )

    def _prepare_optimizer(self, optimizer_config, task, num_steps):
        if self._own_optimizer:
            names = [x.name for x in dataclasses.fields(optimizer_config)]
            for name in filter(optimizer_config.is_given, names):
                raise UserError(f"`{name}` cannot be combined with an optimizer set by `compile`")
            if self._fit_key != task.key:
                self.model.task, self._fit_key = task, task.key
                # Keep what `compile` set, but trace the steps again.
                self.model.train_function = self.model.test_function = None
            return
        variables = tuple(map(id, self.model.trainable_variables))
        key = (optimizer_config, num_steps, variables, task.key)
        if key == self._fit_key:  # the compiled training step can be reused
            for variable in self._default_optimizer.variables:
                variable.assign(keras.ops.zeros_like(variable))
            return
        self.model.task, self._fit_key = task, key
        with model_strategy(self.model).scope():
            self._default_optimizer = make_optimizer(optimizer_config, num_steps)
            self.model.compile(self._default_optimizer, **self._compile_arguments)

    def _fit_in_folder(self, data, config, optimizer_config, callbacks, options):
        """Train as the scripts do, and call Keras callbacks after each epoch.

        Args:
          data: the `TaskData`.
          config: the `FitConfig`.
          optimizer_config: the `OptimizerConfig`.
          callbacks: list of Keras callbacks.
          options: the other arguments of `fit`, options of a `TrainConfig`.

        Returns:
          The `keras.callbacks.History`.
        """
        if keras.backend.backend() != "tensorflow":
            raise UserError("`output_dir` requires the TensorFlow backend of Keras")
        if not self.config_class.FILE:
            raise UserError(f"`output_dir` is not supported by {type(self).__name__}")
        options.pop("verbose", None)  # the loop logs its progress
        for callback in callbacks:
            if isinstance(callback, RATE_CALLBACKS):
                name = type(callback).__name__
                raise UserError(f"`callbacks`: {name} cannot be combined with `output_dir`")
        train = TrainConfig.take(
            options,
            dtype=self.model.compute_dtype,
            train_batch_size=config.batch_size,
            eval_batch_size=config.batch_size,
            num_train_epochs=float(config.epochs),
            bucket_by_length=config.bucket_by_length,
        )
        unused = [
            x for x in ("shuffle", "steps_per_epoch") if getattr(config, x) != getattr(FitConfig, x)
        ]
        if self._compile_arguments or self._own_optimizer:
            unused.append("compile")
        for name in unused:
            raise UserError(f"`{name}` cannot be combined with `output_dir`")
        if train.eval_steps and not data.splits("dev"):
            raise UserError("`eval_steps` requires `validation_data`")
        count, size = data.num_train_examples(), config.batch_size
        if count is not None and count < size:
            raise UserError(f"`batch_size={size}`: found only {count} {data.unit}")
        run_config = FineTuneConfig(
            config.output_dir, data.config, train=train, optimizer=optimizer_config, do_train=True
        )
        data.config.check_folder(config.output_dir)
        run_config.check_model(data.config.bert_config)
        run = FineTuning(
            type(self), run_config, data, self.tokenizer, model_strategy(self.model),
            PretrainedFiles(None, None, None, None), keras_model=self.model, callbacks=callbacks,
        )  # fmt: skip
        skip_padding = self.model.skip_padding
        try:
            run.run()
        finally:
            self.model.skip_padding = skip_padding
        return run.epochs.callbacks._history

    def _columns(self, data):
        """Return `validation_data` as the first arguments of `fit`; a list may be like a tuple."""
        is_list = isinstance(data, list) and 1 < len(data) <= len(self.arguments)
        is_list = is_list and all(isinstance(x, (list, tuple)) or hasattr(x, "ndim") for x in data)
        # For a class without labels, a list of lists of str is a list of pairs.
        is_list = is_list and (self.has_head or not isinstance(next(iter(data[-1]), ""), str))
        return tuple(data) if is_list or isinstance(data, tuple) else (data,)

    def _batches(self, records, task, config):
        """Return an endless dataset of batches, and the number of batches per epoch."""
        strategy, limit = model_strategy(self.model), self.config.max_seq_length
        features, serialized = records
        is_compiled = use_xla(None, strategy) or keras.backend.backend() == "jax"
        batches = FitInput(
            serialized,
            batch_size=config.batch_size,
            shuffle=config.shuffle,
            bucket_by_length=config.bucket_by_length,
            length_multiple=length_multiple(strategy, is_compiled, limit),
            masking=features.masking,
            **features.record_format(self.config.bert_config),
        )
        batches = divide_batches(batches.batches(), can_repeat=not task.compares_replicas)
        return batches, config.steps_per_epoch or -(-len(serialized) // config.batch_size)

    def _features(self, data, split, argument=None):
        """Return the `Features` of a split, and its records; log how many texts are truncated."""
        features = data.features(split, self.tokenizer)
        name = f"`{argument or self.arguments[0]}`"
        serialized = features.in_memory(f"reading {name}")
        if features.log_truncated:
            features.log_truncated(name, features.counts)
        return features, serialized

    @property
    def _own_optimizer(self):
        """The optimizer set by `compile`, or None."""
        optimizer = self.model.optimizer if self.model.compiled else None
        # With float16, Keras has wrapped the optimizer.
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        return None if optimizer is self._default_optimizer else optimizer

    def _evaluate(self, columns, batch_size, options, **task_options):
        """Return a dict of the script's metrics of the columns, the first arguments of `fit`."""
        examples = {"dev": self._examples(columns, self.arguments, "dev")}
        data = self._data(examples, **task_options)
        task, records = data.make_task(self.model), self._features(data, "dev")
        scores = self._scores(task, records, batch_size)
        if self._has_own_scores:
            self.model.task = self.model.task or task
            batches, steps = self._validation(data, records, task, batch_size)
            scores |= self.model.evaluate(batches, steps=steps, return_dict=True, **options)
        else:
            for name in options.keys() - {"verbose"}:
                raise UserError(f"`{name}` requires a loss or metrics set by `compile`")
        return scores

    @property
    def _has_own_scores(self):
        return self.model.is_compiled_with("loss", "metrics", "weighted_metrics")

    def _validation(self, data, records, task, batch_size):
        """Return the batches of the "dev" records for Keras' evaluation, and their number."""
        return self._batches(records, task, FitConfig(batch_size=batch_size, shuffle=False))

    def _scores(self, task, records, batch_size):
        scores = task.metrics(self._predictions(task, records, batch_size))
        return {name.removeprefix("eval_"): float(value) for name, value in scores.items()}

    def _predictions(self, task, records, batch_size):
        """Return the `predictions` of the task for the result of `_features`, arrays (N, ...)."""
        features, serialized = records
        form = features.record_format(self.config.bert_config)
        schema, lengths = form["schema"], form["lengths"]
        # An equal task has equal predictions.
        runner = self._runner(task.predictions, schema, lengths, (type(task), task.key))
        rows = ((None, row) for row in parse_rows(serialized, schema, lengths))
        rows = [x for _, x in runner.run(rows, batch_size, "predicting", "examples")]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _runner(self, function, schema, lengths, key=None):
        """Return the `BatchRunner` of a function of outputs; `key` identifies it, None for itself.

        The function may depend on the config.
        """
        key = key or function
        arguments = function, self.model, model_strategy(self.model), schema, lengths
        name, settings = function.__qualname__, (key, self.config, schema, lengths)
        return self._cache.get(self.model, name, settings, lambda: BatchRunner(*arguments))
