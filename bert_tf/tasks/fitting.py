"""`fit` and `evaluate` of the classes: in memory by Keras, or in a folder by the scripts' loop."""

import dataclasses
import inspect
import re
import warnings
from typing import Any

import keras
import numpy as np

from bert_tf import console
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.base import check_value, unknown_option
from bert_tf.configs.train import FineTuneConfig, FitConfig, OptimizerConfig, TrainConfig
from bert_tf.data.containers import split_last
from bert_tf.data.input_pipeline import FitInput, length_multiple
from bert_tf.errors import UserError
from bert_tf.io.json_files import Positive
from bert_tf.modeling.objective_model import RATE_CALLBACKS
from bert_tf.optimization import AdamWeightDecay, make_optimizer
from bert_tf.training.checkpointing import is_lower_better
from bert_tf.training.fine_tuning import FineTuning
from bert_tf.training.objective import TaskSpec
from bert_tf.training.prediction import BatchRunner, parse_rows
from bert_tf.training.progress import AddScores, CheckLoss
from bert_tf.training.strategy import fill_batches, model_strategy, num_devices, use_xla

# Options of a `TrainConfig` -> the arguments that replace them.
_OTHER_NAMES = {
    "dtype": "`dtype` of `from_preset`",
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

# The activation of a task -> pattern of the names of its loss in Keras.
_LOSSES = {
    "softmax": "((sparse_)?categorical_)?crossentropy|ce",
    "sigmoid": "(binary_)?crossentropy|ce",
}


class Trainable(TaskSpec):
    """Base class of `Pipeline`, which describes its attributes: training and evaluation."""

    model: Any
    config: Any
    # The first arguments of `fit` and `evaluate`, for messages.
    arguments: tuple[str, ...] = ("texts", "labels")
    # Options of `fit` and `evaluate` for `_data`.
    fit_options: tuple[str, ...] = ()
    evaluate_options: tuple[str, ...] = ()
    # Whether the model has a head that is not pre-trained.
    has_head = True
    # Makes probabilities of the logits: "softmax" or "sigmoid"; else "linear".
    activation = "softmax"
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
          metrics: metrics, likewise; None for the metrics of the task. Your own classes, such as a
            subclass of one of Keras, get labels and logits.
          **options: other arguments of `keras.Model.compile`, such as `jit_compile`.
        """
        if re.fullmatch(_LOSSES.get(self.activation, ""), str(loss), re.IGNORECASE):
            loss = None  # the default
        given = {"loss": loss, "metrics": metrics, **options}
        given = {name: x for name, x in given.items() if x is not None}
        default = None if optimizer else keras.optimizers.SGD()  # until `fit` is called
        with model_strategy(self.model).scope():
            self.model.compile(optimizer or default, **given)
        self._compile_arguments, self._default_optimizer, self._fit_key = given, default, None

    def save(self, *_: Any, **__: Any) -> None:
        """Raise a UserError: a Keras file would lack the vocabulary and the labels."""
        raise UserError("`save`: use `save_to_preset`, or `model.save` for the Keras model alone")

    def fit(
        self, *columns: Any, validation_data: Any = None, **options: Any
    ) -> keras.callbacks.History:
        """Train the model with `keras.Model.fit`.

        Args:
          *columns: the data that the class describes, such as texts and labels, in order or by
            name; or a table with these columns: a dict of lists, a DataFrame, a `datasets.Dataset`
            or a `tf.data.Dataset` of dicts.
          validation_data: a tuple of the data, or a table. The history gets the results of
            `evaluate` on it, such as "val_loss" and "val_accuracy".
          **options: attributes of `bert_tf.configs.train.FitConfig` and `OptimizerConfig`, such as
            `epochs` and `learning_rate`; arguments of `keras.Model.fit`, such as `callbacks`; and
            options that the class describes.

        Raises:
          UserError: if an argument is invalid.
        """
        columns, task_options = self._take(columns, self.fit_options, options)
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
            if name in _OTHER_NAMES:
                raise UserError(
                    f"`{name}` is not an option of this `fit`; use {_OTHER_NAMES[name]}"
                )
            known = {*vars(config), *vars(optimizer_config), *self.fit_options, *allowed}
            raise unknown_option(name, known, "this `fit`")
        has_own_loss = self.model.is_compiled_with("loss") and self.activation == "sigmoid"
        if task_options.get("class_weight") is not None and has_own_loss:
            raise UserError(
                "`class_weight` of `task_type=multi_label` cannot be combined with a loss of "
                "`compile`; use `sample_weight`, or weights of labels in the loss"
            )
        examples = {"train": self._examples(columns, self.arguments, "train")}
        if config.validation_split:
            if validation_data is not None:
                raise UserError("`validation_split` cannot be combined with `validation_data`")
            examples = split_last(examples["train"], config.validation_split)
        elif validation_data is not None:
            names = ["validation_data"] * len(self.arguments)
            is_tuple = isinstance(validation_data, tuple)
            columns = validation_data if is_tuple else (validation_data,)
            examples["dev"] = self._examples(columns, names, "dev")
        for name in ("validation_batch_size", "validation_steps", "validation_freq"):
            if "dev" not in examples and name in config.given | options.keys():
                raise UserError(f"`{name}` requires `validation_data` or `validation_split`")
        size = config.validation_batch_size or config.batch_size
        if config.validation_steps:
            examples["dev"] = examples["dev"][: config.validation_steps * size]
        self.config = self._trained_config(examples)
        data = self._data(examples, **task_options)
        fit = self._fit_in_folder if config.output_dir else self._fit_in_memory
        callbacks = keras.tree.flatten(options.pop("callbacks", None) or [])
        for callback in () if self._has_own_scores else callbacks:
            # Keras knows the direction of its own metrics only.
            if getattr(callback, "mode", None) == "auto":
                callback.mode = "min" if is_lower_better(callback.monitor) else "max"
        history = fit(data, config, optimizer_config, callbacks, options)
        self._is_random = False
        return history

    def _take(self, columns, names, options):
        """Return all columns, given in order or in `options`, and a dict of the options `names`."""
        if len(columns) > len(self.arguments):
            raise UserError(f"found {len(columns)} arguments, expected {', '.join(self.arguments)}")
        others = (options.pop(name, None) for name in self.arguments[len(columns) :])
        return (*columns, *others), {name: options.pop(name) for name in names if name in options}

    def _fit_in_memory(self, data, config, optimizer_config, callbacks, options):
        """Train with `keras.Model.fit`; see `_fit_in_folder` for the arguments."""
        objective = data.make_objective(self.model)
        records = self._features(data, "train")
        batches, num_steps, move = self._batches(records, objective, config)
        self._prepare_optimizer(optimizer_config, objective, num_steps * config.epochs)
        data.start_training(self.model)
        if "dev" in data.examples:
            argument = None if config.validation_split else "validation_data"
            size = config.validation_batch_size or config.batch_size
            freq = options.pop("validation_freq", 1)
            records = self._features(data, "dev", argument)
            callbacks.insert(0, AddScores(lambda: self._scores(objective, records, size), freq))
            if self._has_own_scores or not {"loss", "eval_loss"} & {*objective.metric_names}:
                validation = self._validation(data, records, objective, size)
                options["validation_data"], options["validation_steps"] = validation
                options["validation_freq"] = freq
        if move:
            callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: move()))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist for variables")
            return self.model.fit(
                batches,
                epochs=config.epochs,
                steps_per_epoch=None if move else num_steps,
                shuffle=False,
                callbacks=[*callbacks, CheckLoss()],
                **options,
            )

    def _prepare_optimizer(self, optimizer_config, objective, num_steps):
        if self._own_optimizer:
            names = [x.name for x in dataclasses.fields(optimizer_config)]
            for name in filter(optimizer_config.is_given, names):
                raise UserError(f"`{name}` cannot be combined with an optimizer set by `compile`")
            if self._fit_key != objective.key:
                self.model.objective, self._fit_key = objective, objective.key
                # Keep what `compile` set, but trace the steps again.
                self.model.train_function = self.model.test_function = None
            return
        variables = tuple(map(id, self.model.trainable_variables))
        key = (optimizer_config, num_steps, variables, objective.key)
        if key == self._fit_key:  # the compiled training step can be reused
            for variable in self._default_optimizer.variables:
                variable.assign(keras.ops.zeros_like(variable))
            return
        self.model.objective = objective
        with model_strategy(self.model).scope():
            self._default_optimizer = make_optimizer(optimizer_config, num_steps)
            self.model.compile(self._default_optimizer, **self._compile_arguments)
        self._fit_key = key

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
        train = TrainConfig.pop_from(
            options,
            dtype=self.model.compute_dtype,
            train_batch_size=config.batch_size,
            eval_batch_size=config.validation_batch_size or config.batch_size,
            num_train_epochs=float(config.epochs),
            bucket_by_length=config.bucket_by_length,
        )
        unused = {
            "shuffle": not config.shuffle,
            "steps_per_epoch": config.steps_per_epoch,
            "validation_steps": config.validation_steps,
            "compile": self._compile_arguments or self._own_optimizer,
            **{type(x).__name__: isinstance(x, RATE_CALLBACKS) for x in callbacks},
        }
        for name in filter(unused.get, unused):
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

    def _batches(self, records, objective, config):
        """Return the results of `FitInput.batches`, with the number of steps in between."""
        strategy, limit = model_strategy(self.model), self.config.max_seq_length
        features, serialized = records
        is_compiled = use_xla(None, strategy) or keras.backend.backend() == "jax"
        row_multiple = num_devices() if objective.compares_replicas else 1
        size = min(config.batch_size, len(serialized))
        if size < row_multiple:
            raise UserError(
                f"`batch_size`: found {size} rows in a batch for {row_multiple} devices"
            )
        if row_multiple > 1:
            console.info("batches are cut to multiples of the %d devices", row_multiple)
        num_steps = config.steps_per_epoch or -(-len(serialized) // config.batch_size)
        # With `steps_per_execution`, Keras ends an epoch only where the dataset ends. Each epoch
        # then needs a new iterator, which takes 0.1 s.
        batches, move = FitInput(
            serialized,
            batch_size=config.batch_size,
            shuffle=config.shuffle,
            bucket_by_length=config.bucket_by_length,
            row_multiple=row_multiple,
            length_multiple=length_multiple(strategy, is_compiled, limit),
            masking=features.masking,
            **features.record_format(self.config.bert_config),
        ).batches(None if self.model.steps_per_execution == 1 else num_steps)
        return fill_batches(batches) if row_multiple == 1 else batches, num_steps, move

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

    def evaluate(
        self, *columns: Any, batch_size: int = FitConfig.batch_size, steps: int | None = None,
        return_dict: bool = True, **options: Any,
    ) -> dict[str, float]:  # fmt: skip
        """Return a dict of the metrics of the task's script, and the loss.

        Args:
          *columns: the data with labels, as in `fit`.
          batch_size: number of examples of the maximum length per step; shorter ones may be more.
          steps: number of batches; only the first `steps * batch_size` examples are evaluated.
          return_dict: True, as in Keras; the result is always a dict.
          **options: arguments of `keras.Model.evaluate` if `compile` set a loss or metrics, which
            are then part of the result.

        Raises:
          UserError: if an argument is invalid.
        """
        if not return_dict:
            raise UserError("`return_dict=False`: expected True; the result is always a dict")
        check_value("steps", steps, Positive | None)
        columns, task_options = self._take(columns, self.evaluate_options, options)
        examples = self._examples(columns, self.arguments, "dev")
        examples = {"dev": examples[: steps and steps * batch_size]}
        data = self._data(examples, **task_options)
        objective, records = data.make_objective(self.model), self._features(data, "dev")
        scores = self._scores(objective, records, batch_size)
        if self._has_own_scores:
            self.model.objective = self.model.objective or objective
            batches, steps = self._validation(data, records, objective, batch_size)
            scores |= self.model.evaluate(batches, steps=steps, return_dict=True, **options)
        else:
            for name in options.keys() - {"verbose"}:
                raise UserError(f"`{name}` requires a loss or metrics set by `compile`")
        return scores

    @property
    def _has_own_scores(self):
        return self.model.is_compiled_with("loss", "metrics", "weighted_metrics")

    def _validation(self, data, records, objective, batch_size):
        """Return the batches of the "dev" records and the steps for Keras' evaluation."""
        config = FitConfig(batch_size=batch_size, shuffle=False)
        batches, num_steps, move = self._batches(records, objective, config)
        return batches, None if move else num_steps

    def _scores(self, objective, records, batch_size):
        scores = objective.metrics(self._predictions(objective, records, batch_size))
        return {name.removeprefix("eval_"): float(value) for name, value in scores.items()}

    def _predictions(self, objective, records, batch_size):
        """Return the `predictions` of the task for the result of `_features`, arrays (N, ...)."""
        features, serialized = records
        form = features.record_format(self.config.bert_config)
        schema, lengths = form["schema"], form["lengths"]
        # An equal task has equal predictions.
        runner = self._runner(
            objective.predictions, schema, lengths, (type(objective), objective.key)
        )
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
