"""`Task`, the base class of `TextClassifier` and of the other classes that take texts."""

import dataclasses
import inspect
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.checkpoints.metadata import replacing_preset
from bert_tf.checkpoints.release import check_path
from bert_tf.commands import environment
from bert_tf.configs.base import check_value, unknown_option
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.configs.task import DataOptions, TaskConfig, check_length
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.configs.train import FitConfig
from bert_tf.data.containers import split_last
from bert_tf.data.input_pipeline import FitInput
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.io.json_files import Positive
from bert_tf.modeling.layer_states import load_quantized, save_quantized
from bert_tf.tasks.fitting import CompileState, fit_in_folder, inner_optimizer, pop_configs
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.vocabulary import check_vocabulary
from bert_tf.training import checkpointing, results
from bert_tf.training.callbacks import CheckLoss, add_scores
from bert_tf.training.checkpointing import is_lower_better
from bert_tf.training.engine import Engine
from bert_tf.training.objective import RunData, concatenate
from bert_tf.training.prediction import BatchRunner, ModelCache, parse_rows

_Task = TypeVar("_Task", bound="Task")

# For each activation, a pattern of the names of Keras losses that mean the task's own loss.
_LOSSES = {
    "softmax": "((sparse_)?categorical_)?crossentropy|ce",
    "sigmoid": "(binary_)?crossentropy|ce",
}


class Task:
    """Base class of tasks: a model on strings, which trains, predicts, and is saved and exported.

    To train on some of the devices only, create the object in the scope of a `tf.distribute`
    strategy; by default, it uses all devices.

    A task declares `name`, `config_class` and what else it needs of the attributes below. It
    defines `make_model`, `make_servable`, `make_examples`, `features`, `objective` and `predict`,
    and for a script `read_data`.

    Attributes:
      model: the Keras model on token ids.
      config: the `TaskConfig`.
      tokenizer: the `FullTokenizer`.
    """

    name: str
    # The classes of the options of the model and of the data.
    config_class: type[TaskConfig]
    data_class: type[DataOptions] = DataOptions
    # The first arguments of `fit` and `evaluate`, for messages.
    arguments: tuple[str, ...] = ("texts", "labels")
    # Further options of `fit` and `evaluate`, which are arguments of `run_data`.
    fit_options: tuple[str, ...] = ()
    evaluate_options: tuple[str, ...] = ()
    # The function from logits to probabilities, "softmax" or "sigmoid"; else "linear".
    activation = "softmax"
    # The prefix of the weights of a pre-trained head; "" if the model has no head, None if the head
    # is fine-tuned.
    pretrained_head: str | None = None

    # Whether the head was neither loaded nor trained.
    _is_random = False

    @staticmethod
    def make_model(config, dtype=None):
        """Return the Keras model of a `TaskConfig`."""
        raise NotImplementedError

    @staticmethod
    def make_servable(model, config, serving_config):
        """Return the `serving.Servable` of a model."""
        raise NotImplementedError

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        """Read the `RunData` of a run.

        Args:
          data_options: the options of the data, a `data_class`.
          config: the options of the model, a `config_class`.
          pretrained: the `checkpoints.PretrainedFiles` of the model.
          splits: the splits that are needed, of "train", "dev" and "test", in this order.
          trained: the config of the model that the run evaluates, None for a new model.
        """
        raise NotImplementedError

    def make_examples(self, columns, names, split):
        """Return the examples of the columns of `fit`, which have `names` in messages."""
        raise NotImplementedError

    def features(self, data, split):
        """Return the `data.features.Features` of a split of `RunData`."""
        raise NotImplementedError

    def objective(self, data):
        """Return the `Objective` of the model, for `RunData`."""
        raise NotImplementedError

    def start_training(self, data):
        """Prepare the model, which has its initial or restored weights, for training."""

    @staticmethod
    def training_size(data, features=None):
        """Return the number of examples in a training epoch, and a noun for them in messages.

        The number is None if it depends on the `features`.
        """
        return len(data.examples["train"]), "examples"

    def run_data(self, examples, **options):
        """Return the `RunData` of a dict from split to examples, with the options of `fit`.

        Its config is the one of the model after training on these examples.
        """
        return RunData(examples, self.config, self.data_class(**options))

    def result_columns(self, objective, data, predictions, split):
        """Return the predictions as N texts, the names of the labels, and an array (N, ...)."""
        raise NotImplementedError

    def report(self, objective, data, predictions):
        """Return the text of `eval_report.txt` for the predictions of a split."""
        raise NotImplementedError

    def write_results(self, objective, data, split, batches, folder, evaluates, predicts):
        """Write the result files of a split.

        Args:
          objective: the `Objective`.
          data: the `RunData`.
          split: name of the split.
          batches: iterable of the predictions of each batch; see `Loop.predict`.
          folder: folder for the files; None for a worker process that does not write them.
          evaluates: whether to compute the metrics and, with the option `report`, the report.
          predicts: whether to write the predictions.

        Returns:
          The metrics if the split is evaluated, else None; and the config of the model, which the
          results may change.
        """
        predictions = concatenate(batches)
        if predicts and folder:
            self.write_predictions(objective, data, predictions, split, folder)
        if evaluates and folder and getattr(data.options, "report", False):
            text = self.report(objective, data, predictions)
            console.info("%s", text)
            path = results.result_file(folder, "eval_report", split, ".txt")
            files.write_text(path, text)
        return objective.metrics(predictions) if evaluates else None, data.config

    def write_predictions(self, objective, data, predictions, split, folder):
        """Write test_results.tsv and test_predictions.tsv."""
        ids = [example.id for example in data.examples[split]]
        columns = self.result_columns(objective, data, predictions, split)
        results.write_predictions(folder, split, ids, *columns)

    def __new__(cls: type[_Task], model: Any, config: Any = None) -> _Task:
        if config is None:  # as in `SentenceTransformer(folder)`
            raise UserError(f"`model`: use `{cls.__name__}.from_preset` to load a model")
        return super().__new__(cls)

    def __init__(self, model: keras.Model, config: TaskConfig):
        self.model, self.config = model, config.keep_vocabulary()
        model.logits_activation = self.activation
        self.tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
        self._cache, self._compiled = ModelCache(), CompileState(model)

    def __repr__(self):
        labels = self.config.labels
        return (
            f"<{type(self).__name__} of {type(self.model).__name__}: "
            f"num_layers {self.config.bert_config.num_hidden_layers}, "
            f"num_parameters {self.model.count_params()}, "
            f"max_seq_length {self.config.max_seq_length}"
            f"{', labels ' if labels else ''}{abbreviate(labels, 9)}>"
        )

    def __reduce__(self):
        """Pickle or copy the model as Keras does, without traced functions."""
        arguments = self._compiled.arguments, self._compiled.own_optimizer is None, self._is_random
        return _restore, (type(self), self.model, self.config, *arguments)

    @classmethod
    def from_preset(
        cls: type[_Task],
        preset: str | os.PathLike | PretrainedFiles,
        labels: Sequence[Any] | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool | str = True,
        **options: Any,
    ) -> _Task:
        """Create the object from a pre-trained or fine-tuned model.

        If the task has a head that the model lacks, it is initialized.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          labels: the labels of a classifier or a new tagger; None for the saved ones.
          max_seq_length: maximum sequence length, in tokens. None for the saved setting, else the
            default of the task.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random; "all" raises an
            error if weights that predictions use, such as a head, are missing.
          **options: attributes of this class's `config`, None for the saved or default value, and
            further options that the description of the class names.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        config_class = cls.config_class
        if labels is not None:
            options["labels"] = labels
        cls._check_preset_options(options)
        # A task for uncased models warns if no file specifies the casing.
        default = None if config_class.do_lower_case else False
        pretrained = checkpoints.resolve(
            preset, default_lower_case=default, do_lower_case=do_lower_case
        )
        trained = config_class.load(pretrained.config_folder)
        options |= {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
        given = {name: value for name, value in options.items() if value is not None}
        values = cls.preset_config(pretrained, trained, **given)
        if not trained:
            longest = pretrained.bert_config.max_position_embeddings
            values = {"max_seq_length": min(config_class.max_seq_length, longest), **values}
        config = (trained or config_class()).with_model(pretrained, **values)
        check_length(config.max_seq_length, config.bert_config)
        settings = {"do_lower_case": config.do_lower_case, "config_file": pretrained.config_file}
        check_vocabulary(config.vocab, config.bert_config, config.vocab_file, **settings)
        quantized = None
        with Engine.default().scope():
            model = cls.make_model(config, dtype)
            if load_weights:
                values = {**model.get_config(), "dtype": dtype, "bert": None, "name": None}
                quantized = load_quantized(pretrained.folder, type(model), values)
            task = cls(quantized or model, config)
        if quantized and trained and trained.labels != config.labels:
            raise UserError(
                f"`labels`: expected {abbreviate(trained.labels, 9)} as in the quantized model"
            )
        loaded = []
        if load_weights and not quantized:
            needs_all = load_weights == "all" and not cls.pretrained_head
            path, labels = pretrained.checkpoint, config.labels or None
            loaded = checkpoints.warm_start(task.model, path, needs_all, labels, "preset")
            head = cls.pretrained_head or ""
            if not any(x.startswith(head) for x in loaded):
                raise UserError(
                    f"`preset`: found no {head} in {pretrained.checkpoint}, "
                    "expected a pre-trained model"
                )
        is_new = not quantized and all(x.startswith("bert/") for x in loaded)
        task._is_random = cls.pretrained_head is None and is_new
        if task._is_random:
            console.info("the head is randomly initialized; `fit` trains it")
        return task

    @classmethod
    def _check_preset_options(cls, options):
        """Raise UserError if a name is not an option of `from_preset`."""
        of_config = [x.name for x in dataclasses.fields(cls.config_class) if x.metadata.get("help")]
        arguments = inspect.signature(cls.preset_config).parameters.values()
        of_class = [x.name for x in arguments if x.kind == inspect.Parameter.KEYWORD_ONLY]
        known = {*of_config, *cls.config_class.UNSAVED, *of_class}
        script = TASK_CONFIG_FILES.get(cls.config_class.FILE, "its script")
        owner, others = f"{cls.__name__}.from_preset", {}
        others |= {x.name: script for x in dataclasses.fields(cls.data_class)}
        others |= dict.fromkeys(cls.fit_options, "`fit`")
        for name in sorted(options.keys() - known):
            if name in others:
                raise UserError(f"`{name}` is an option of {others[name]}, not of {owner}")
            raise unknown_option(name, known, owner)

    @classmethod
    def preset_config(cls, pretrained, trained, **options):
        """Return the attributes of the config that `from_preset` sets, a dict.

        Args:
          pretrained: the `PretrainedFiles`.
          trained: the config of a fine-tuned model, or None.
          **options: the given options of `from_preset`. A class declares an option that is not one
            of its config as a keyword-only argument.
        """
        return options

    def compile(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Set your own optimizer, loss or metrics for `fit`; calling it is optional.

        Args:
          optimizer: a Keras optimizer; None for the release's, with 10 % warm-up and linear decay
            over the steps of each `fit`.
          loss: a loss of Keras, given one-hot rows and probabilities if it expects them, or a
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
        self._compiled.set(optimizer, given)

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
        config, optimizer_config = pop_configs(options, self.fit_options)
        has_own_loss = self.model.is_compiled_with("loss") and self.activation == "sigmoid"
        if task_options.get("class_weight") is not None and has_own_loss:
            raise UserError(
                "`class_weight` of `task_type=multi_label` cannot be combined with a loss of "
                "`compile`; use `sample_weight`, or weights of labels in the loss"
            )
        examples = {"train": self.make_examples(columns, self.arguments, "train")}
        if config.validation_split:
            if validation_data is not None:
                raise UserError("`validation_split` cannot be combined with `validation_data`")
            examples = split_last(examples["train"], config.validation_split)
        elif validation_data is not None:
            names = ["validation_data"] * len(self.arguments)
            is_tuple = isinstance(validation_data, tuple)
            columns = validation_data if is_tuple else (validation_data,)
            examples["dev"] = self.make_examples(columns, names, "dev")
        for name in ("validation_batch_size", "validation_steps", "validation_freq"):
            if "dev" not in examples and name in config.given | options.keys():
                raise UserError(f"`{name}` requires `validation_data` or `validation_split`")
        size = config.validation_batch_size or config.batch_size
        if config.validation_steps:
            examples["dev"] = examples["dev"][: config.validation_steps * size]
        data = self.run_data(examples, **task_options)
        callbacks = keras.tree.flatten(options.pop("callbacks", None) or [])
        for callback in () if self._compiled.has_own_scores else callbacks:
            # Keras knows the direction of its own metrics only.
            if getattr(callback, "mode", None) == "auto":
                callback.mode = "min" if is_lower_better(callback.monitor) else "max"
        fit = fit_in_folder if config.output_dir else Task._fit_in_memory
        history = fit(self, data, config, optimizer_config, callbacks, options)
        self._is_random = False
        return history

    def _take(self, columns, names, options):
        """Return all columns, given in order or in `options`, and a dict of the options `names`."""
        if len(columns) > len(self.arguments):
            raise UserError(f"found {len(columns)} arguments, expected {', '.join(self.arguments)}")
        others = (options.pop(name, None) for name in self.arguments[len(columns) :])
        return (*columns, *others), {name: options.pop(name) for name in names if name in options}

    def _fit_in_memory(self, data, config, optimizer_config, callbacks, keras_options):
        """Train with `keras.Model.fit`; see `fit_in_folder` for the arguments."""
        if keras.backend.backend() == "jax" and Engine.of(self.model).is_multi_worker:
            raise UserError(
                "TF_CONFIG lists several workers, which train together only with `output_dir`"
            )
        objective = self.objective(data)
        records = self._features(data, "train")
        batches, num_steps, advance = self._batches(records, objective, config)
        self._compiled.prepare(optimizer_config, objective, num_steps * config.epochs)
        self.start_training(data)
        if "dev" in data.examples:
            argument = None if config.validation_split else "validation_data"
            size = config.validation_batch_size or config.batch_size
            freq = keras_options.pop("validation_freq", 1)
            records = self._features(data, "dev", argument)
            callbacks.insert(0, add_scores(lambda: self._scores(objective, records, size), freq))
            has_loss = not {"loss", "eval_loss"}.isdisjoint(objective.metric_names)
            if self._compiled.has_own_scores or not has_loss:
                validation = self._validation(data, records, objective, size)
                keras_options["validation_data"], keras_options["validation_steps"] = validation
                keras_options["validation_freq"] = freq
        if advance:
            callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: advance()))
        keras_options["epochs"] = config.epochs
        keras_options["steps_per_epoch"] = None if advance else num_steps
        callbacks.append(CheckLoss())
        self.config = data.config
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist for variables")
            return self.model.fit(batches, shuffle=False, callbacks=callbacks, **keras_options)

    def _batches(self, records, objective, config):
        """Return the results of `FitInput.batches`, with the number of steps in between."""
        engine, limit = Engine.of(self.model), self.config.max_seq_length
        features, serialized = records
        multiple = engine.row_multiple if objective.compares_replicas else 1
        size = min(config.batch_size, len(serialized))
        if size < multiple:
            raise UserError(f"`batch_size`: found {size} rows in a batch for {multiple} devices")
        if multiple > 1:
            console.info("batches are cut to multiples of the %d devices", multiple)
        num_steps = config.steps_per_epoch or math.ceil(len(serialized) / config.batch_size)
        # With `steps_per_execution`, Keras ends an epoch only where the dataset ends. Each epoch
        # then needs a new iterator, which takes 0.1 s.
        batches, advance = FitInput(
            records=serialized,
            batch_size=config.batch_size,
            shuffle=config.shuffle,
            bucket_by_length=config.bucket_by_length,
            row_multiple=multiple,
            length_multiple=engine.length_multiple(limit, engine.compiles()),
            masking=features.masking,
            **features.record_format(self.config.bert_config),
        ).batches(None if self.model.steps_per_execution == 1 else num_steps)
        return engine.fill_batches(batches) if multiple == 1 else batches, num_steps, advance

    def _features(self, data, split, argument=None):
        """Return the `Features` of a split, and its records; log how many texts are truncated."""
        features = self.features(data, split)
        name = f"`{argument or self.arguments[0]}`"
        serialized = features.in_memory(f"reading {name}")
        if features.log_truncated:
            features.log_truncated(name, features.counts)
        return features, serialized

    def evaluate(
        self, *columns: Any, batch_size: int = FitConfig.batch_size, steps: int | None = None,
        return_dict: bool = True, **options: Any,
    ) -> dict[str, float]:  # fmt: skip
        """Return a dict of the metrics of the task's script, and the loss.

        Args:
          *columns: the data with labels, as in `fit`.
          batch_size: number of examples of the maximum length per step; a step may take more
            if they are shorter.
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
        examples = self.make_examples(columns, self.arguments, "dev")
        examples = {"dev": examples[: steps and steps * batch_size]}
        data = self.run_data(examples, **task_options)
        objective, records = self.objective(data), self._features(data, "dev")
        scores = self._scores(objective, records, batch_size)
        if self._compiled.has_own_scores:
            self.model.objective = self.model.objective or objective
            batches, steps = self._validation(data, records, objective, batch_size)
            scores |= self.model.evaluate(batches, steps=steps, return_dict=True, **options)
        else:
            for name in options.keys() - {"verbose"}:
                raise UserError(f"`{name}` requires a loss or metrics set by `compile`")
        return scores

    def _validation(self, data, records, objective, batch_size):
        """Return the batches of the "dev" records and the steps for Keras' evaluation."""
        config = FitConfig(batch_size=batch_size, shuffle=False)
        batches, num_steps, advance = self._batches(records, objective, config)
        return batches, None if advance else num_steps

    def _scores(self, objective, records, batch_size):
        scores = objective.metrics(self._predictions(objective, records, batch_size))
        return {name.removeprefix("eval_"): float(value) for name, value in scores.items()}

    def _predictions(self, objective, records, batch_size):
        """Return the `predictions` of the task for the result of `_features`, arrays (N, ...)."""
        features, serialized = records
        form = features.record_format(self.config.bert_config)
        schema, lengths = form["schema"], form["lengths"]
        key = type(objective), objective.key  # objectives with the same key predict the same
        runner = self._runner(objective.predictions, schema, lengths, key)
        rows = ((None, row) for row in parse_rows(serialized, schema, lengths))
        rows = [x for _, x in runner.run(rows, batch_size, "predicting", "examples")]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _runner(self, function, schema, lengths, key=None):
        """Return the cached `BatchRunner` of a function of outputs, which may depend on the config.

        `key` is the cache key of the function; None uses the function itself.
        """
        key = key or function
        arguments = function, self.model, Engine.of(self.model), schema, lengths
        name, settings = function.__qualname__, (key, self.config, schema, lengths)
        return self._cache.get(self.model, name, settings, lambda: BatchRunner(*arguments))

    def _warn_if_blank(self, argument, texts):
        if count := sum(not text.strip() for text in texts):
            console.warning("`%s`: %d of %d texts are blank", argument, count, len(texts))

    def _answers(self, rows, batch_size, options=None, output=None, **changes):
        """Return the answers to rows, dicts of inputs.

        `options` are arguments of `make_servable`; `output` names an output of the model to return
        instead; `changes` override the config.
        """
        self._warn_if_random("the answers")

        def make():
            config = dataclasses.replace(self.config, **changes)
            skip_padding = Engine.of(self.model).can_skip_padding()
            serving_config = ServingConfig(dtype=None, skip_padding=skip_padding)
            servable = self.make_servable(self.model, config, serving_config, **(options or {}))
            return serving.Predictor(servable)

        # Cached for each set of changes, because a caller may alternate between texts and pairs.
        name, settings = ("predictor", *changes.values()), (self.config, options)
        return self._cache.get(self.model, name, settings, make)(rows, batch_size, output)

    def export(self, folder: str | os.PathLike, version: int | None = None, **options: Any) -> str:
        """Write a SavedModel for TF Serving and for programs without bert_tf.

        `bert_tf.serving.Predictor` runs the model. `export_model.py` writes the same files.

        Args:
          folder: parent folder for all versions of the model.
          version: version number; None for the next free one.
          **options: attributes of `configs.ServingConfig`, such as `inputs` and `weights`. By
            default, `dtype` is the dtype of the model.

        Returns:
          The folder written, FOLDER/VERSION.

        Raises:
          UserError: if the version exists or an argument is invalid.
        """
        self._warn_if_random("the answers of the exported model")
        dtype = self.model.compute_dtype
        if options.get("dtype") is None and options.get("format") != "onnx":
            options["dtype"] = None if dtype == "float64" else dtype
        config = ExportConfig(os.fspath(folder), version=version, serving=ServingConfig(**options))
        if keras.backend.backend() != "tensorflow":
            return _export_by_tensorflow(self, config.export_dir, config.version, options)
        servable = self.make_servable(self.model, self.config, config.serving)
        return serving.export(servable, config.export_dir, config.version)

    def summary(self, **options: Any) -> None:
        """Print the layers of the model; see `keras.Model.summary`."""
        self.model.summary(**options)

    def enable_lora(self, rank: int, **options: Any) -> None:
        """Train only the head and low-rank updates of kernels; see `BertModel.enable_lora`."""
        self.model.enable_lora(rank, **options)

    def quantize(self, mode: Any = None, **options: Any) -> None:
        """Quantize the model, such as to "int8", after training; see `BertModel.quantize`."""
        self.model.quantize(mode, **options)

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder that `from_preset` loads.

        A fine-tuned model is written in the format of its script, without optimizer state, for
        `--init_checkpoint` of the scripts or `--model_dir` of `export_model.py`. A pre-trained
        model is written as a Hugging Face or sentence-transformers folder. A quantized model is
        written as `quantized.keras`, for this class or Keras only.

        Args:
          folder: the path.
          overwrite: whether to replace an existing model, in a folder without other files.

        Raises:
          UserError: if the folder exists and is not to be replaced, or cannot be written.
        """
        self._warn_if_random("the saved weights")
        if self.pretrained_head is None:  # written as a checkpoint
            check_path(folder, "folder")
        with replacing_preset(folder, overwrite) as temporary:
            if save_quantized(self.model, temporary):
                self.config.save(temporary)
            else:
                self._write_preset(temporary)

    def _warn_if_random(self, what):
        if self._is_random:
            console.warning(
                "%s come from a randomly initialized head; train it with `fit` first", what
            )

    def _write_preset(self, folder):
        optimizer = getattr(self.model, "optimizer", None)
        step = int(keras.ops.convert_to_numpy(optimizer.iterations)) if optimizer else 0
        tensors = {**checkpoints.tensors(self.model), "global_step": np.int64(step)}
        variables = {name: tf.constant(value) for name, value in tensors.items()}
        checkpointing.save(folder, variables)
        self.config.save(folder)


def _restore(task_class, model, config, compile_arguments, is_default, is_random):
    task = task_class(model, config)
    task._is_random, task._compiled.arguments = is_random, compile_arguments
    if is_default and model.compiled:
        task._compiled.default_optimizer = inner_optimizer(model)
    return task


def _export_by_tensorflow(task, folder, version, options):
    """Export the model, through a preset, in a process with the TensorFlow backend."""
    cls = type(task)
    if cls.__module__ == "__main__":
        raise UserError(
            f"`export` with the JAX backend: {cls.__name__} is defined in the main program; move "
            "it to a module, or export a preset with KERAS_BACKEND=tensorflow"
        )
    with tempfile.TemporaryDirectory() as temporary:
        preset = os.path.join(temporary, "preset")
        task.save_to_preset(preset)
        arguments = json.dumps([os.path.abspath(folder), version, options])
        program = (
            f"import json, sys, {cls.__module__} as module; "
            f"task = module.{cls.__name__}.from_preset(sys.argv[1]); "
            "folder, version, options = json.loads(sys.argv[2]); "
            "print(task.export(folder, version, **options))"
        )
        # No GPUs, because JAX has reserved their memory.
        variables = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
        command = [sys.executable, "-c", program, preset, arguments]
        env = environment() | variables
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"the export with TensorFlow failed: {message}")
    return os.path.join(folder, os.path.basename(done.stdout.splitlines()[-1]))
