"""Models that `Predictor` runs with TensorFlow."""

import tensorflow as tf

from bert_tf.errors import UserError, reason
from bert_tf.tokenization.graph import tensorflow_text


class _Model:
    """A function of columns of inputs.

    Attributes:
      model: the SavedModel or the `Servable`.
      inputs: dict from name to kind: `str`, `list[str]`, or the length of a list of numbers.
    """

    def __init__(self, model, signature, serve, serve_one, num_threads):
        if num_threads:
            raise UserError("`num_threads` requires an ONNX model")
        self.model = model  # keeps the variables of a SavedModel
        self._signature, self._serve, self._serve_one = signature, serve, serve_one
        self.inputs = {name: _kind(spec) for name, spec in signature.items()}

    def __call__(self, columns, is_single):
        inputs = {x: tf.constant(columns[x], spec.dtype) for x, spec in self._signature.items()}
        return (self._serve_one if is_single else self._serve)(inputs)


def _kind(spec):
    if spec.dtype != tf.string:
        return spec.shape[1]
    return str if spec.shape.rank == 1 else list[str]


def load(path, metadata, num_threads=None):
    """Load a SavedModel with the contents of its `model.json`."""
    tensorflow_text()  # registers the operations of the graph
    try:
        model = tf.saved_model.load(path)
        serve = model.signatures["serving_default"]
        specs = serve.structured_input_signature[1]
        signature = {name: specs[name] for name in metadata["inputs"]}
    # Loading a damaged model raises exceptions of many classes.
    except Exception as error:
        raise UserError(f"`model`: {path} cannot be loaded ({reason(error)})") from None

    def call(inputs):
        return serve(**inputs)

    return _Model(model, signature, call, call, num_threads)


def trace(servable, num_threads=None):
    """Trace a `Servable`."""
    signature = servable.text_signature

    def trace_rows(count):
        specs = {k: tf.TensorSpec((count, *x.shape[1:]), x.dtype) for k, x in signature.items()}
        # AutoGraph takes half of the time of tracing.
        return tf.function(servable.serve_text, [specs], autograph=False)

    return _Model(servable, signature, trace_rows(None), trace_rows(1), num_threads)
