"""`Pipeline`, the base of the classes on strings: presets, training, evaluation, prediction."""

import dataclasses
import os
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.export import ServingConfig
from bert_tf.configs.task import TaskConfig, check_length
from bert_tf.configs.train import FitConfig, OptimizerConfig
from bert_tf.data.containers import split_last
from bert_tf.data.input_pipeline import FitInput, length_multiple
from bert_tf.errors import UserError, abbreviate
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.tasks import saving
from bert_tf.tasks.fitting import check_options, fit_in_folder, fit_in_memory
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.vocabulary import check_vocabulary
from bert_tf.training import checkpointing
from bert_tf.training.prediction import BatchRunner, ModelCache, parse_rows
from bert_tf.training.strategy import default_strategy, divide_batches, model_strategy, use_xla
from bert_tf.training.task import TaskSpec

_Pipeline = TypeVar("_Pipeline", bound="Pipeline")


class Pipeline:
    """Base class of the classes that train, apply, save and export a model on strings.

    A task defines `_examples` and `_data`, and the methods `fit`, `evaluate` and `predict` with
    the names of its columns. To train on some of the devices only, create the pipeline in the
    scope of a `tf.distribute` strategy; by default, it uses all devices.

    Attributes:
      model: the Keras model on token ids.
      config: the `TaskConfig`.
      tokenizer: the `FullTokenizer`.
    """

    spec: TaskSpec
    config: Any
    # The first arguments of `fit` and `evaluate`, for messages.
    arguments: tuple[str, ...] = ("texts", "labels")
    # Whether the model has a head that is not pre-trained, and the loss' name in Keras.
    has_head = True
    pretrained_head = ""  # the prefix of weights that a model must have
    keras_loss = "sparse_categorical_crossentropy"
    keep_special_tokens = False
    # The optimizer unless one was given, and the arguments of `compile`.
    _default_optimizer = None
    _compile_arguments: dict[str, Any] = {}  # noqa: RUF012
    # Whether the head was neither loaded nor trained.
    _is_random = False
    # What the compiled training step depends on.
    _fit_key: tuple | None = None

    def __init__(self, model: keras.Model, config: TaskConfig):
        self.model, self.config = model, config.keep_vocabulary()
        self.tokenizer = FullTokenizer(
            config.vocab, keep_special_tokens=self.keep_special_tokens, **config.tokenizer_settings
        )
        self._cache = ModelCache()

    def __repr__(self):
        labels = self.config.labels
        values = {
            "num_layers": self.config.bert_config.num_hidden_layers,
            "num_parameters": self.model.count_params(),
            "max_seq_length": self.config.max_seq_length,
            **({"labels": abbreviate(labels, 9)} if labels else {}),
        }
        described = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"<{type(self).__name__} of {type(self.model).__name__}: {described}>"

    @classmethod
    def from_preset(
        cls: type[_Pipeline],
        preset: str | os.PathLike | PretrainedFiles,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool = True,
        **options: Any,
    ) -> _Pipeline:
        """Create the pipeline from a pre-trained or fine-tuned model.

        If the task has a head that the model lacks, it is initialized.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "hf://OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          max_seq_length: maximum sequence length, in tokens. None for the saved setting, else the
            default of the task.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random.
          **options: attributes of the `config` of this class, None for saved values or defaults.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        known = {field.name for field in dataclasses.fields(cls.spec.config_class)}
        known |= {"labels"} & vars(cls.spec.config_class).keys()  # may be a property
        for name in options.keys() - known | options.keys() & {"bert_config", "vocab_file"}:
            raise UserError(f"`{name}` is not an option of {cls.__name__}.from_preset")
        # A task for uncased models warns if no file specifies the casing.
        default = None if cls.spec.config_class.do_lower_case else False
        files = checkpoints.resolve(preset, default_lower_case=default, do_lower_case=do_lower_case)
        stored = cls.spec.config_class.load(files.folder)
        options |= {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
        given = {name: value for name, value in options.items() if value is not None}
        values = cls._config_values(files.checkpoint, stored, given)
        values = {**values, **files.tokenizer_settings}
        if stored:
            config = stored.with_options(vocab_file=files.vocab_file, **values)
        else:
            config = cls.spec.config_class.from_pretrained(
                files.bert_config, files.vocab_file, **values
            )
        check_length(config.max_seq_length, config.bert_config)
        check_vocabulary(
            config.vocab, config.bert_config, config.vocab_file, config.do_lower_case, files.config
        )
        has_scope = tf.distribute.has_strategy()
        strategy = tf.distribute.get_strategy() if has_scope else default_strategy()
        with strategy.scope():
            pipeline = cls(cls.spec.make_model(config, dtype), config)
        loaded = []
        if load_weights:
            loaded = checkpoints.warm_start(
                pipeline.model, files.checkpoint, labels=config.labels or None, argument="preset"
            )
            if not any(x.startswith(cls.pretrained_head) for x in loaded):
                raise UserError(
                    f"`preset`: found no {cls.pretrained_head} in {files.checkpoint}, expected a "
                    "pre-trained model"
                )
        pipeline._is_random = cls.has_head and all(x.startswith("bert/") for x in loaded)
        if pipeline._is_random:
            console.info("the head is randomly initialized; `fit` trains it")
        return pipeline

    @classmethod
    def _config_values(cls, checkpoint, stored, values):
        """Return the config attributes that differ from the config `stored` or the defaults."""
        return values

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
          loss: a Keras loss of logits; None, or the name of the task's cross entropy, for the loss
            of the task.
          metrics: Keras metrics of logits; None for the metrics of the task.
          **options: other arguments of `keras.Model.compile`, such as `jit_compile`.

        Raises:
          UserError: if the loss or a metric does not take logits.
        """
        if loss in (self.keras_loss, self.keras_loss.removeprefix("sparse_")):
            loss = None  # that of the task
        given = {"loss": loss, "metrics": metrics, **options}
        given = {name: x for name, x in given.items() if x is not None}
        is_binary = self.keras_loss == "binary_crossentropy"
        for name in keras.tree.flatten(metrics) if is_binary else ():
            if isinstance(name, str) and name.removeprefix("binary_") in ("accuracy", "acc"):
                raise UserError(
                    f"`metrics={name}`: expected a metric of logits, such as "
                    "BinaryAccuracy(threshold=0.0)"
                )
        default = None if optimizer else keras.optimizers.SGD()  # until `fit` is called
        with model_strategy(self.model).scope():
            self.model.compile(optimizer or default, **given)
        self._compile_arguments, self._default_optimizer, self._fit_key = given, default, None

    def _fit(self, columns, validation_data, options, **task_options):
        """Train on the columns, the first arguments of `fit`; see `FitConfig` for the options."""
        config, optimizer_config = FitConfig.take(options), OptimizerConfig.take(options)
        check_options(self, config, options)
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
        fit = fit_in_folder if config.output_dir else fit_in_memory
        history = fit(self, data, config, optimizer_config, options)
        self._is_random = False
        return history

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

    def _warn_if_blank(self, argument, texts):
        if count := sum(not text.strip() for text in texts):
            console.warning("`%s`: %d of %d texts are blank", argument, count, len(texts))

    def _answers(self, rows, batch_size, **changes):
        """Return the answers to rows, dicts of inputs; `changes` override the config."""
        self._warn_if_random("the answers")
        config = dataclasses.replace(self.config, **changes)

        def make():
            skip_padding = can_skip_padding(model_strategy(self.model))
            serving_config = ServingConfig(dtype=None, skip_padding=skip_padding)
            servable = self.spec.make_servable(self.model, config, serving_config)
            return serving.ServablePredictor(servable)

        # By number of texts, because a caller may alternate between texts and pairs.
        name = "predictor", config.num_texts
        return self._cache.get(self.model, name, config, make)(rows, batch_size)

    def summary(self, **options: Any) -> None:
        """Print the layers of the model; see `keras.Model.summary`."""
        self.model.summary(**options)

    def export(self, folder: str | os.PathLike, version: int | None = None, **options: Any) -> str:
        """Write a SavedModel for TF Serving and for programs without bert_tf.

        `bert_tf.serving.Predictor` runs the model. `export_model.py` writes the same files.

        Args:
          folder: parent folder for all versions of the model.
          version: version number; None for the next free one.
          **options: attributes of `configs.ServingConfig`, such as `inputs` and `weights`. By
            default, `dtype` is that of the model.

        Returns:
          The folder written, FOLDER/VERSION.

        Raises:
          UserError: if the version exists or an argument is invalid.
        """
        self._warn_if_random("the answers of the exported model")
        return saving.export(self, folder, version, options)

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder that `from_preset` loads.

        A fine-tuned model is written in the format of its script, without optimizer state, for
        `--init_checkpoint` of the scripts or `--model_dir` of `export_model.py`. A pre-trained
        model is written as a Hugging Face or sentence-transformers folder.

        Args:
          folder: the path.
          overwrite: whether to replace an existing model, in a folder without other files.

        Raises:
          UserError: if the folder exists and is not to be replaced, or cannot be written.
        """
        self._warn_if_random("the saved weights")
        saving.save(self, folder, overwrite)

    def _warn_if_random(self, what):
        if self._is_random:
            console.warning(
                "%s come from a randomly initialized head; train it with `fit` first", what
            )

    def __reduce__(self):
        """Pickle or copy the model as Keras does, without traced functions."""
        arguments = self._compile_arguments, self._own_optimizer is None, self._is_random
        return _restore, (type(self), self.model, self.config, *arguments)

    def _write_preset(self, folder):
        optimizer = getattr(self.model, "optimizer", None)
        step = int(keras.ops.convert_to_numpy(optimizer.iterations)) if optimizer else 0
        tensors = {**checkpoints.tensors(self.model), "global_step": np.int64(step)}
        variables = {name: tf.constant(value) for name, value in tensors.items()}
        checkpointing.save(folder, variables)
        self.config.save(folder)


def _restore(pipeline_class, model, config, compile_arguments, is_default, is_random):
    pipeline = pipeline_class(model, config)
    pipeline._compile_arguments, pipeline._is_random = compile_arguments, is_random
    if is_default and model.compiled:
        pipeline._default_optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return pipeline
