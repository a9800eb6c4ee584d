"""Base class of pipelines that fine-tune and apply the model of a task."""

import dataclasses
import operator

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving
from bert_tf.configs.export import ServingConfig
from bert_tf.configs.task import TaskConfig, check_length
from bert_tf.configs.train import BatchConfig
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.pipelines.keras_training import KerasTraining, pad_batch
from bert_tf.pipelines.saving import Pipeline
from bert_tf.pipelines.tokenizer_layer import BertTokenizer
from bert_tf.tokenization.packing import log_truncated
from bert_tf.tokenization.vocabulary import check_vocabulary
from bert_tf.training import checkpointing
from bert_tf.training.jax_devices import use_all_devices
from bert_tf.training.strategy import model_strategy
from bert_tf.training.task_spec import TaskSpec

# Texts are tokenized in batches of this size to count the truncated ones.
_ROWS_PER_BATCH = 256


class TaskPipeline(KerasTraining, Pipeline):
    """Base class of pipelines that fine-tune and apply the model of a task, on strings.

    Predictions and exports use the servable of the task, so they tokenize texts in the same way.
    """

    spec: TaskSpec

    def __init__(self, model: keras.Model, config: TaskConfig):
        self.model, self.config = model, config.keep_vocabulary()
        self.tokenizer = BertTokenizer(
            config.vocab,
            max_seq_length=config.max_seq_length,
            pad_to_longest=True,
            **config.tokenizer_settings,
        )
        # The traced servable, and the variables that it was traced with.
        self._predictor = None
        self._predictor_variables: list = []

    @classmethod
    def _from_preset(cls, preset, dtype=None, load_weights=True, **values):
        """Create the pipeline; `values` are attributes of the config, None for saved values."""
        model_files = checkpoints.resolve(preset, do_lower_case=values.get("do_lower_case"))
        checkpoint, config_class = model_files.checkpoint, cls.spec.config_class
        stored = config_class.load(model_files.folder)
        given = {name: value for name, value in values.items() if value is not None}
        values = cls._config_values(checkpoint, stored, given)
        values = {**values, **model_files.tokenizer_settings}
        if stored:
            config = dataclasses.replace(stored, vocab_file=model_files.vocab_file, **values)
        else:
            config = config_class.from_pretrained(
                model_files.bert_config, model_files.vocab_file, **values
            )
        check_length(config.max_seq_length, config.bert_config)
        check_vocabulary(
            config.vocab, config.bert_config, config.vocab_file, config.do_lower_case,
            model_files.config,
        )  # fmt: skip
        use_all_devices()
        pipeline = cls(cls.spec.make_model(config, dtype), config)
        loaded = []
        if load_weights:
            loaded = checkpoints.warm_start(
                pipeline.model, checkpoint, labels=config.labels or None, argument="preset"
            )
        pipeline._is_random = all(name.startswith("bert/") for name in loaded)
        if pipeline._is_random:
            console.info("the head is randomly initialized; `fit` trains it")
        return pipeline

    @classmethod
    def _config_values(cls, checkpoint, stored, values):
        """Return the config attributes that differ from the config `stored` or the defaults."""
        return values

    def _pad(self, batch):
        return pad_batch(batch, model_strategy(self.model), self.config.max_seq_length)

    @tf.autograph.experimental.do_not_convert
    def _log_truncated(self, argument, columns):
        """Warn if texts are truncated; `columns` are one or two string tensors (N,)."""
        limit = self.config.max_seq_length
        # A token has at least one byte, so most texts need not be tokenized.
        is_long = tf.add_n([tf.strings.length(x) for x in columns]) > limit - 3

        def lengths(*texts):
            sizes = [self.tokenizer.graph_tokenizer.tokenize(x).row_lengths() for x in texts]
            return 2 + tf.add_n(sizes) + sum(tf.cast(x > 0, x.dtype) for x in sizes[1:])

        long = tuple(tf.boolean_mask(x, is_long) for x in columns)
        dataset = tf.data.Dataset.from_tensor_slices(long).batch(_ROWS_PER_BATCH)
        parts = list(dataset.map(lengths, tf.data.AUTOTUNE).as_numpy_iterator())
        if parts:
            sizes = np.concatenate(parts)
            counts = {"texts": len(is_long), "truncated": int((sizes > limit).sum()),
                      "longest": int(sizes.max())}  # fmt: skip
            log_truncated(
                f"`{argument}`", counts, limit, self.config.bert_config.max_position_embeddings
            )

    def _servable(self, serving_config):
        return self.spec.make_servable(self.model, self.config, serving_config)

    def _answers(self, rows, batch_size, **changes):
        """Return the answers to rows, dicts of inputs; `changes` override the config."""
        if batch_size is not None:
            batch_size = BatchConfig(batch_size).validate().batch_size
        self._warn_if_random("the answers")
        variables, previous = self.model.variables, self._predictor_variables
        # Retrace the model if its variables were replaced, for example by `quantize`.
        is_same = len(variables) == len(previous) and all(map(operator.is_, variables, previous))
        if self._predictor is None or not is_same:
            skip_padding = can_skip_padding(model_strategy(self.model))
            serving_config = ServingConfig(dtype=None, skip_padding=skip_padding)
            config = dataclasses.replace(self.config, **changes).keep_vocabulary(self.config)
            servable = self.spec.make_servable(self.model, config, serving_config)
            self._predictor = serving.ServablePredictor(servable)
            self._predictor_variables = variables
        return self._predictor(rows, batch_size)

    def __reduce__(self):
        """Pickle or copy the model as Keras does, without traced functions."""
        optimizer = self.model.optimizer if self.model.compiled else None
        is_default = getattr(optimizer, "inner_optimizer", optimizer) is self._default_optimizer
        arguments = self._compile_arguments, is_default, self._is_random
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
