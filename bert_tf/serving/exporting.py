"""Write SavedModels that run without bert_tf.

A model that takes text has two operations of tensorflow-text in its graph, and TensorFlow does not
load a graph with unknown operations. A model for users who have TensorFlow alone therefore takes
token ids and is exported separately.
"""

import functools
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console, files, locks
from bert_tf.data.tfrecord import varint
from bert_tf.errors import UserError
from bert_tf.modeling.layer_states import named_layers
from bert_tf.modeling.models import INPUTS
from bert_tf.serving.predictor import METADATA, list_versions
from bert_tf.serving.sequences import Buckets
from bert_tf.tokenization.graph import GraphTokenizer
from bert_tf.tokenization.settings import extra_settings

WEIGHT_TYPES = ("float32", "bfloat16", "int8")
COMPUTE_TYPES = ("float32", "bfloat16", "float16")

# Smaller variables (norms, biases) stay in float32: they are a thousandth of all weights.
_MIN_QUANTIZED_SIZE = 4096

# For `batching_parameters.txt`: the maximum number of rows in a batch and in a request.
_MAX_BATCH_SIZE, _MAX_REQUEST_SIZE = 32, 1024

# Tasks whose outputs are as wide as the widest row of the batch.
_VARIABLE_WIDTH_TASKS = ("encoder", "fill_mask", "token_classification")

# File with the requests that TF Serving sends to a model before it accepts any from outside.
WARM_UP_REQUESTS = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Field numbers: PredictionLog.predict_log; PredictLog.request; PredictRequest.model_spec and
# .inputs, a map; ModelSpec.signature_name.
_PREDICT_LOG, _REQUEST, _MODEL_SPEC, _INPUTS, _SIGNATURE_NAME = 6, 1, 1, 2, 3


class Options(NamedTuple):
    """How to export a model of any task.

    Attributes:
      inputs: "text" for a `serving_default` that takes strings and a signature `ids`; "ids" for a
        `serving_default` that takes token ids in a graph that requires TensorFlow alone.
      buckets: lengths to pad the sequences of texts to; empty for the longest of a batch.
      weights: the type to store the weights in, one of `WEIGHT_TYPES`.
      warm_up: whether to write requests that TF Serving warms the model up with.
      dtype: the type to compute in, one of `COMPUTE_TYPES`, to which the weights are converted
        once; None for the model as it is.
      skip_padding: whether to compute only tokens, see `modeling.layers`, for both signatures; None
        for a model that takes text and has no buckets. Buckets are for devices and compilers that
        need few shapes, and converters of models that take ids may lack the operations.
    """

    inputs: str = "text"
    buckets: tuple = ()
    weights: str = "float32"
    warm_up: bool = True
    dtype: str | None = None
    skip_padding: bool | None = None


def string_specs(*names):
    """Return a signature of strings (B,)."""
    return {name: tf.TensorSpec((None,), tf.string, name=name) for name in names}


def token_id_specs(*shape):
    """Return a signature of the encoder's inputs, int32 (B, S) or of another shape."""
    shape = shape or (None, None)
    return {name: tf.TensorSpec(shape, tf.int32, name=name) for name in INPUTS}


class Servable(NamedTuple):
    """A model with its signatures, ready to export.

    Attributes:
      task: name of the task in `model.json`.
      trackables: objects whose variables and tables are saved: the model first, then tokenizers.
      tokenizer: the `GraphTokenizer` of the texts.
      buckets: the `Buckets` of sequence lengths.
      serve_text: function from a dict of the inputs in `text_signature` to a dict of outputs.
      text_signature: dict of `tf.TensorSpec`, in the order of a line of text.
      sample_text: function from a text two tokens shorter than a sequence to a row of text inputs
        that fill the sequence.
      serve_ids: function from a dict of the inputs in `ids_signature` to a dict of outputs.
      options: the `Options` that the servable was made with.
      ids_signature: dict of `tf.TensorSpec`.
      metadata: further entries of `model.json`, such as the labels.
    """

    task: str
    trackables: tuple
    tokenizer: GraphTokenizer
    buckets: Buckets
    serve_text: Callable
    text_signature: dict
    sample_text: Callable
    serve_ids: Callable
    options: Options
    ids_signature: dict = token_id_specs()
    metadata: dict | None = None


class QuantizedModel(tf.Module):
    """Wraps a Keras model and stores its weights in bfloat16 or 8 bits, for smaller files.

    They are converted back where they are used, so the outputs are those of the model with rounded
    weights, and the speed does not improve.
    """

    def __init__(self, model, weight_type):
        """Copy and round the weights of a model; the model itself does not change.

        int8 is symmetric, with one scale for each word of an embedding table and each output of a
        kernel: its largest absolute value / 127 (Jacob et al., arXiv:1712.05877, section 2, with
        zero point 0).
        """
        super().__init__()
        # Not the model itself, because tf.Module would save its weights too.
        self._call = model.stateless_call
        self.weights, self.scales = [], []
        for variable in model.trainable_variables:
            value = variable.numpy().astype("float32")
            is_large = value.size >= _MIN_QUANTIZED_SIZE and value.ndim == 2
            scale = None
            if weight_type == "int8" and is_large:
                name = variable.path.split("/")[-1]
                axis = 1 if "embeddings" in name or name == "output_weights" else 0
                scale = np.abs(value).max(axis, keepdims=True) / 127
                scale = np.where(scale == 0, 1, scale).astype("float32")
                value = np.rint(value / scale).astype("int8")
            elif weight_type == "bfloat16" and is_large:
                value = tf.cast(value, tf.bfloat16)
            self.weights.append(tf.Variable(value, trainable=False, name=variable.path))
            self.scales.append(None if scale is None else tf.Variable(scale, trainable=False))
        self._non_trainable = [
            tf.Variable(x.value, trainable=False) for x in model.non_trainable_variables
        ]

    def __call__(self, inputs, training=False, **options):
        """Return the outputs of the model in inference mode."""
        weights = []
        for value, scale in zip(self.weights, self.scales, strict=True):
            # `stateless_call` converts them to the types of the model's variables.
            weights.append(value if scale is None else tf.cast(value, tf.float32) * scale)
        outputs, _ = self._call(weights, self._non_trainable, inputs, training=False, **options)
        return outputs


class PreparedModel(NamedTuple):
    """A model to which `Options` were applied.

    Attributes:
      model: the object to save, a Keras model or a `QuantizedModel`.
      call: function from a dict of inputs to the outputs in inference mode, as of a Keras model.
      buckets: the `Buckets` of sequence lengths.
    """

    model: Any
    call: Callable
    buckets: Buckets


def prepare_model(model, options, max_seq_length):
    """Return the `PreparedModel` of a Keras model, which itself does not change."""
    for name, values in (("weights", WEIGHT_TYPES), ("dtype", (*COMPUTE_TYPES, None))):
        value = getattr(options, name)
        if value not in values:
            expected = ", ".join(filter(None, values))
            raise UserError(f"`{name}={value}`: expected one of {expected}")
    buckets = Buckets(options.buckets, max_seq_length)
    skip_padding = options.skip_padding
    if skip_padding is None:
        skip_padding = options.inputs == "text" and not options.buckets
    if options.dtype not in (None, model.weight_type):
        model = _convert(model, options.dtype)
    if options.weights != "float32":
        model = QuantizedModel(model, options.weights)
    call = functools.partial(model, training=False, skip_padding=skip_padding)
    return PreparedModel(model, call, buckets)


def _convert(model, dtype):
    """Return a copy of a model whose layers have weights of this type and compute in it.

    In Keras' mixed precision the weights are float32 and converted in each call, which takes longer
    than the products of a small batch. Heads that always compute in float32 still do.
    """
    if any(getattr(layer, "quantization_mode", None) for _, layer in named_layers(model)):
        if dtype == model.compute_type:
            return model
        raise UserError(
            f"`dtype={dtype}`: the model is quantized and computes in {model.compute_type}"
        )
    copy = type(model).from_config({**model.get_config(), "dtype": dtype})
    for source, target in zip(model.weights, copy.weights, strict=True):
        target.assign(source)
    return copy


def export(servable, export_dir, version=None):
    """Write a SavedModel; its folder appears complete or not at all.

    Its subfolder `assets.extra` has the vocabulary, the labels if there are any (one per line, in
    the order of their ids), `model.json`, and warm-up requests for TF Serving. `export_dir` gets a
    `batching_parameters.txt` unless it already has one.

    Args:
      servable: a `Servable`.
      export_dir: folder of all versions of the model, as TF Serving expects it.
      version: number of the version to write, None for the next free one.

    Returns:
      The folder written, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists, or another process is exporting to the same folder.
    """
    with locks.locked(export_dir, "export_dir", "exports"):
        locks.remove_temporary_files(export_dir)
        versions = [int(name) for name in list_versions(export_dir)]
        if version is None:
            version = max(versions, default=0) + 1
        if version in versions:
            raise UserError(f"`version={version}`: {export_dir} already has this version")
        folder = os.path.join(export_dir, str(version))
        _write(servable, folder)
        _write_batching_parameters(export_dir, servable.task)
    return folder


def _write(servable, folder):
    options = servable.options
    takes_text = options.inputs == "text"
    archive = keras.export.ExportArchive()
    for trackable in servable.trackables if takes_text else servable.trackables[:1]:
        # ExportArchive finds the weights of a Keras model itself; track() would write them twice.
        if not isinstance(trackable, keras.Layer):
            archive.track(trackable)
    endpoints = {"serving_default": (servable.serve_ids, servable.ids_signature)}
    if takes_text:
        endpoints = {
            "serving_default": (_checking_rows(servable.serve_text), servable.text_signature),
            "ids": (servable.serve_ids, servable.ids_signature),
        }
    for name, (function, signature) in endpoints.items():
        archive.add_endpoint(name, function, input_signature=[signature])
    buckets = servable.buckets
    metadata = {
        "task": servable.task,
        "inputs": list(servable.text_signature) if takes_text else [],
        "max_seq_length": buckets.max_length,
        "sequence_buckets": buckets.lengths if takes_text else (),
        "weights": options.weights,
        "do_lower_case": servable.tokenizer.do_lower_case,
        **extra_settings(servable.tokenizer.settings),
        **(servable.metadata or {}),
    }
    with files.replacing_folder(folder) as temporary:
        archive.write_out(temporary, verbose=False)
        tokens = {index: token for token, index in servable.tokenizer.vocab.items()}
        lists = {
            files.VOCABULARY: [tokens.get(index, "") for index in range(max(tokens) + 1)],
            "labels.txt": metadata.get("labels", ()),
            "numbers.txt": metadata.get("numbers", ()),
        }
        extra = os.path.join(temporary, "assets.extra")
        for name, lines in lists.items():
            if lines:
                files.write_text(os.path.join(extra, name), "".join(f"{x}\n" for x in lines))
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        files.write_text(os.path.join(temporary, METADATA), text)
        if options.warm_up:
            requests = _warm_up_requests(servable, endpoints, buckets.warm_up_lengths)
            _write_warm_up_requests(temporary, requests)
    console.info(
        "exported %s: %s of %s, weights %s",
        folder, servable.task, ", ".join(servable.text_signature) if takes_text else "ids",
        options.weights,
    )  # fmt: skip


def _checking_rows(serve):
    """Return a function like `serve` that raises an error for inputs of different lengths.

    Without it, TensorFlow repeats an input of one row for all rows of the others.
    """

    def serve_equal(inputs):
        counts = tf.stack([tf.shape(x)[0] for x in inputs.values()])
        names = ", ".join(inputs)
        message = f"{names}: the same number of rows was expected, found"
        tf.debugging.Assert(tf.reduce_all(counts == counts[0]), [message, counts], summarize=9)
        return serve(inputs)

    return serve_equal


def _write_batching_parameters(export_dir, task):
    """Write parameters for TF Serving's --batching_parameters_file."""
    lines = [
        # TF Serving splits a request into batches; max_batch_size is the limit of a request.
        f"max_batch_size {{ value: {_MAX_REQUEST_SIZE} }}",
        "enable_large_batch_splitting { value: true }",
        f"max_execution_batch_size {{ value: {_MAX_BATCH_SIZE} }}",
    ]
    if task in _VARIABLE_WIDTH_TASKS:
        # It concatenates the outputs of these batches, which would differ in width.
        lines = [f"max_batch_size {{ value: {_MAX_BATCH_SIZE} }}"]
    lines += [
        "batch_timeout_micros { value: 2000 }",
        "max_enqueued_batches { value: 256 }",
        "num_batch_threads { value: 2 }",
    ]
    # Left out: allowed_batch_sizes, whose last value would have to be max_batch_size, and
    # pad_variable_length_inputs, which pads a mask with its first value, 1.
    text = "\n".join(lines) + "\n"
    path = os.path.join(export_dir, "batching_parameters.txt")
    if not files.system(path).exists(path):
        files.write_text(path, text)
    elif files.read_text(path) != text:
        console.info("kept %s, which differs from the default parameters of this model", path)


def _warm_up_requests(servable, endpoints, lengths):
    """Yield (inputs, signature name): for each length a request of one row and one of a batch."""
    # A word that is one token.
    words = (x for x in servable.tokenizer.vocab if x.isascii() and x.isalpha() and x.islower())
    word = next(words, "a")
    for name, (_, signature) in endpoints.items():
        for length in lengths:
            for size in (1, _MAX_BATCH_SIZE):
                if signature is servable.text_signature:
                    row = servable.sample_text(" ".join([word] * max(1, length - 2)))
                    yield {key: [value] * size for key, value in row.items()}, name
                else:
                    yield _sample_ids(signature, size, length), name


def _sample_ids(signature, size, length):
    """Return inputs of token ids: a mask of ones, zeros for the rest."""
    inputs = {}
    for name, spec in signature.items():
        # (B, S), (B, C, S) with two endings, or (B, F) of numeric features.
        endings = [2] if spec.shape.rank == 3 else []
        fill = tf.ones if name == "input_mask" else tf.zeros
        inputs[name] = fill((size, *endings, spec.shape[-1] or length), spec.dtype)
    return inputs


def _write_warm_up_requests(folder, requests):
    """Write a TFRecord file of `PredictionLog` messages into a SavedModel's folder.

    The messages are encoded here, because the package tensorflow-serving-api that defines them pins
    TensorFlow's version.
    """
    path = os.path.join(folder, WARM_UP_REQUESTS)
    files.make_folder(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for inputs, signature in requests:
            parts = [_field(_MODEL_SPEC, _field(_SIGNATURE_NAME, signature.encode()))]
            for key in sorted(inputs):
                tensor = tf.make_tensor_proto(inputs[key]).SerializeToString()
                # A map entry is a message with the key as field 1 and the value as field 2.
                parts.append(_field(_INPUTS, _field(1, key.encode()) + _field(2, tensor)))
            writer.write(_field(_PREDICT_LOG, _field(_REQUEST, b"".join(parts))))


def _field(number, data):
    """Encode a Protocol Buffers field of bytes: tag, length, data."""
    return varint(number << 3 | 2) + varint(len(data)) + data
