"""Models prepared for export: precision, storage of weights, padding, and substrings."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.configs.export import ServingConfig
from bert_tf.errors import UserError
from bert_tf.modeling.cpu_graph import is_portable
from bert_tf.modeling.layer_states import is_quantized
from bert_tf.modeling.models import BertPretrainer
from bert_tf.tokenization.graph import GraphTokenizer, HostTokenizer
from bert_tf.tokenization.graph_normalization import row_indices
from bert_tf.training.engine import Engine

# Smaller variables (norms, biases) stay in float32; they are 0.1 % of all weights.
_MIN_QUANTIZED_SIZE = 4096

# Larger models do not run faster with constants, and optimizing a graph with the constants of
# BERT-Base takes TensorFlow 20 s and 3 GB of memory.
_MAX_CONSTANT_BYTES = 0.1e9


class QuantizedModel(tf.Module):
    """Stores the weights of a Keras model in bfloat16 or int8, and expands them in each call."""

    def __init__(self, model, weight_type):
        """Copy and round the weights of a model.

        int8 has a scale per row of an embedding table and per output of a kernel: the largest
        absolute value / 127 (Jacob et al., arXiv:1712.05877, section 2, with zero point 0).
        """
        super().__init__()
        # tf.Module would save the weights of an attribute that is a model or its variables.
        self._call, self._variables = model.call, lambda: model.variables
        # A masked LM also multiplies by the word embeddings, so it needs all rows.
        self._needs_all_words = isinstance(model, BertPretrainer)
        self.weights = [_round(variable, weight_type) for variable in model.variables]

    def __call__(self, inputs, **options):
        # `stateless_call` would refuse a table with only the rows of the given words. An eager call
        # would refuse more words than the whole table has.
        scope, ids = keras.StatelessScope(), inputs["input_ids"]
        words = tf.reshape(ids, [-1])
        for variable, (x, scale) in zip(self._variables(), self.weights, strict=True):
            if variable.name == "word_embeddings" and not self._needs_all_words:
                # The name appears in the error for an invalid id.
                x = tf.gather(x, words, name="input_ids_below_vocab_size")
                scale = None if scale is None else tf.gather(scale, words)
                inputs = {**inputs, "input_ids": tf.reshape(tf.range(tf.size(ids)), tf.shape(ids))}
            x = x if scale is None else tf.cast(x, tf.float32) * scale
            scope.add_update((variable, tf.cast(x, variable.dtype)))
        with scope:
            return self._call(inputs, **options)


def _round(variable, weight_type):
    """Return a TensorFlow variable with the rounded values, and its scale or None."""
    value, scale = variable.numpy(), None
    if keras.backend.is_float_dtype(variable.dtype):
        value = value.astype("float32")
    if value.dtype == "float32" and value.size >= _MIN_QUANTIZED_SIZE and value.ndim == 2:
        if weight_type == "int8":
            name = variable.path.split("/")[-1]
            axis = 1 if "embeddings" in name or name == "output_weights" else 0
            scale = np.abs(value).max(axis, keepdims=True) / 127
            scale = np.where(scale == 0, 1, scale).astype("float32")
            value = np.rint(value / scale).astype("int8")
            scale = tf.Variable(scale, trainable=False)
        elif weight_type == "bfloat16":
            value = tf.cast(value, tf.bfloat16)
    return tf.Variable(value, trainable=False, name=variable.path), scale


class Buckets:
    """Rounds sequence lengths up to the next bucket; without buckets, lengths do not change.

    With fewer shapes, TensorFlow reuses more compiled code and memory, and TF Serving can batch
    requests of the same bucket.
    """

    def __init__(self, lengths, max_length):
        if invalid := [x for x in lengths if not 1 <= x <= max_length]:
            raise UserError(
                f"`sequence_buckets`: found {invalid[0]}, expected lengths between 1 and "
                f"`max_seq_length` ({max_length})"
            )
        self.lengths = tuple(sorted({*lengths, max_length})) if lengths else ()
        self.max_length = max_length

    def __call__(self, length):
        """Return the length to pad to, an int32 scalar."""
        if not self.lengths:
            return length
        lengths = tf.constant(self.lengths)
        return tf.gather(lengths, tf.searchsorted(lengths, [length])[0])

    def tokenize(self, tokenizer, *texts):
        """Return the inputs (B, S) from a tokenizer, padded with zeros to a bucket."""
        batch = tokenizer(*texts, max_seq_length=self.max_length, pad_to_longest=True)
        if not self.lengths:
            return batch
        size = tf.shape(batch["input_ids"])[1]
        padding = tf.maximum(self(tf.minimum(size, self.max_length)) - size, 0)
        return {name: tf.pad(x, [[0, 0], [0, padding]]) for name, x in batch.items()}


def substrings(texts, indices, starts, ends):
    """Return substrings (N,) of `texts[indices]` by character offsets, skipping invalid UTF-8."""
    characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")
    offsets = tf.cast(tf.gather(characters.row_starts(), indices), tf.int32)
    ranges = tf.ragged.range(offsets + starts, offsets + ends)
    selected = tf.gather(characters.values, ranges.values)
    # `reduce_join` of a ragged tensor would allocate N times the longest substring.
    return tf.strings.unsorted_segment_join(selected, row_indices(ends - starts), tf.size(starts))


class PreparedModel(NamedTuple):
    """A model to which a `ServingConfig` was applied, with its tokenizers.

    `call` runs the model in inference mode.
    """

    model: Any
    call: Callable
    buckets: Buckets
    serving_config: ServingConfig
    make_tokenizer: Callable

    @property
    def tokenizer(self):
        """A `GraphTokenizer` for exports of text, else the faster-loading `HostTokenizer`."""
        config = self.serving_config
        is_exported = is_portable() and (config.format, config.inputs) == ("savedmodel", "text")
        with tf.init_scope():
            return self.make_tokenizer(GraphTokenizer if is_exported else HostTokenizer)

    def with_tokenizer(self, serve_ids, *names):
        """Return a function like `serve_ids` that takes one or two texts, named `names`."""

        def serve_text(inputs):
            others = {name: value for name, value in inputs.items() if name not in names}
            texts = [inputs[name] for name in names]
            batch = self.buckets.tokenize(self.tokenizer, *texts)
            for ids in batch.values():
                ids.set_shape((texts[0].shape[0], None))
            return serve_ids({**batch, **others})

        return serve_text


def prepare_model(model, config, serving_config):
    """Return the `PreparedModel` of a Keras model with a `TaskConfig`.

    Raises UserError if an option is not supported.
    """
    if serving_config.weights == "float32" and serving_config.dtype not in ("float32", None):
        raise UserError(f"`weights=float32` cannot be combined with `dtype={serving_config.dtype}`")
    buckets = Buckets(serving_config.sequence_buckets, config.max_seq_length)
    make_tokenizer = functools.cache(lambda make: make(config.vocab, **config.tokenizer_settings))
    if keras.backend.backend() != "tensorflow":
        return PreparedModel(model, _through_numpy(model), buckets, serving_config, make_tokenizer)
    dtype = serving_config.dtype
    if serving_config.format == "onnx":
        return PreparedModel(model, model, buckets, serving_config, make_tokenizer)
    if dtype and {model.compute_dtype, model.variable_dtype} != {dtype}:
        model = _convert(model, dtype)
    has_constants = False
    if serving_config.weights not in (None, model.variable_dtype):
        model = QuantizedModel(model, serving_config.weights)
    elif dtype == model.variable_dtype != "float32":
        has_constants = sum(x.numpy().nbytes for x in model.variables) <= _MAX_CONSTANT_BYTES
    call = _with_constants(model) if has_constants else functools.partial(call_model, model)
    call = functools.partial(call, skip_padding=serving_config.skips_padding)
    # Both signatures share this function with its constants, except with windows.
    call = tf.function(call, autograph=False)
    return PreparedModel(model, call, buckets, serving_config, make_tokenizer)


def _through_numpy(model):
    """Return a TensorFlow function that calls a model of another Keras backend."""
    names = [x.name for x in model.inputs]
    specs = keras.tree.flatten(model.output)

    def predict(*values):
        outputs = Engine.of(model).predict_on_batch(model, dict(zip(names, values, strict=True)))
        return tuple(keras.tree.flatten(outputs))

    def call(inputs, of_windows=False):
        values = [inputs[name] for name in names]
        outputs = tf.numpy_function(predict, values, [spec.dtype for spec in specs])
        for output, spec in zip(outputs, specs, strict=True):
            output.set_shape(spec.shape)
        return keras.tree.pack_sequence_as(model.output, outputs)

    return call


def _convert(model, dtype):
    """Return a copy of a model with weights and computation in `dtype`.

    Mixed precision casts float32 weights in each call, which takes longer than the matrix products
    of a small batch.
    """
    if is_quantized(model):
        if dtype == model.compute_dtype:
            return model
        raise UserError(f"`dtype={dtype}`: the quantized model computes in {model.compute_dtype}")
    copy = type(model).from_config({**model.get_config(), "dtype": dtype})
    for source, target in zip(model.weights, copy.weights, strict=True):
        target.assign(source)
    return copy


def _with_constants(model):
    """Return a function that calls a model, with its weights as constants of the graph.

    oneDNN reorders the matrices of half-precision products in each call, but constants only once,
    which halves the time.
    """
    values = [variable.numpy() for variable in model.variables]

    def call(inputs, **options):
        with keras.StatelessScope(zip(model.variables, map(tf.constant, values), strict=True)):
            return call_model(model.call, inputs, **options)

    return call


def call_model(model, inputs, skip_padding, of_windows=False):
    """Call a model in inference mode; a single row is faster without skipping padding.

    `Predictor` traces a single row separately, but not a single window.
    """
    call = functools.partial(model, inputs, training=False)
    if not skip_padding or inputs["input_ids"].shape[0] == 1:
        return call(skip_padding=False)
    if not is_portable() and not of_windows:
        return call(skip_padding=True)
    is_single = tf.shape(inputs["input_ids"])[0] == 1
    return tf.cond(is_single, lambda: call(skip_padding=False), lambda: call(skip_padding=True))
