"""Fast versions of operations for TensorFlow graphs on a CPU, used for packed tokens.

Shapes: T tokens of a batch without padding, H their width, R rows.

TensorFlow passes over the memory once for each step of a formula. These need fewer passes.
"""

import contextlib
import contextvars
import functools
import math
import threading

import keras

_IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _IS_TENSORFLOW:
    import tensorflow as tf

# GELU by tanh (Hendrycks and Gimpel, arXiv:1606.08415, section 2) is
# 0.5 * x * (1 + tanh(SCALE * (x + CUBIC * x^3))).
_SCALE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_COMPILED_WIDTH = 1024


def is_traced():
    """Return whether a TensorFlow graph is being traced."""
    return _IS_TENSORFLOW and not tf.executing_eagerly()


_is_portable = contextvars.ContextVar("is_portable", default=False)
is_portable = _is_portable.get


@contextlib.contextmanager
def portable():
    """Trace graphs for any device, such as exported ones, while the block runs."""
    token = _is_portable.set(True)
    try:
        yield
    finally:
        _is_portable.reset(token)


_is_uncompiled = contextvars.ContextVar("is_uncompiled", default=False)
set_uncompiled, reset_uncompiled = _is_uncompiled.set, _is_uncompiled.reset


def may_compile():
    """Return whether XLA may compile. `jit_compile=False` and debuggers prevent it."""
    from tensorflow.python.eager import context

    # `tf.debugging.enable_check_numerics` and `enable_dump_debug_info` add callbacks.
    return not (_is_uncompiled.get() or context.context().op_callbacks)


# Models may be traced in several threads, which share the traces of `_trace`.
_trace_lock = threading.Lock()


@functools.cache
def _trace(function, *specs):
    """Trace `function` once, as a separate graph: TensorFlow never frees a custom gradient."""
    function = tf.custom_gradient(function)
    with tf.init_scope():
        trace = tf.function(function, autograph=False).get_concrete_function(*specs)
        # TensorFlow would build the gradient at its first use, which fails in two threads at once.
        trace.add_gradient_functions_to_graph(tf.Graph())
    return trace


def call_with_gradient(function, x, *arguments):
    """Return `function(x, *arguments)` (R, H) for x (T, H).

    `function` returns its result and a function from the gradient of the result to the gradients of
    the arguments. Pass the same object each time: its trace is cached.
    """
    specs = [tf.TensorSpec([None] * len(a.shape), a.dtype) for a in (x, *arguments)]
    with _trace_lock:
        trace = _trace(function, *specs)
    y = trace(x, *arguments)
    y.set_shape((None, x.shape[-1]))
    return y


def gelu(x):
    """Return the tanh approximation of GELU of x (T, H), for training."""
    # XLA compiles once per number of rows, in 0.1 s. A wide model saves this time in 2 to 3 steps.
    is_compiled = x.shape[-1] >= _COMPILED_WIDTH and may_compile()
    return call_with_gradient(_compiled_gelu if is_compiled else _gelu, x)


def _gelu(x):
    return _gelu_value(x), functools.partial(_gelu_gradient, x)


def _compiled_gelu(x):
    return _compiled(_gelu_value)(x), functools.partial(_compiled(_gelu_gradient), x)


def has_gpu():
    return bool(tf.config.list_logical_devices("GPU"))


@functools.cache
def _compiled(function):
    """Return a function that XLA compiles to one pass over the memory.

    It is used only on CPUs, because the time of compilation on GPUs was not measured.
    """
    return tf.function(function, jit_compile=None if has_gpu() else True, autograph=False)


def _gelu_value(x):
    y = float32(x)
    return keras.ops.cast(0.5 * y * (1.0 + _gelu_tanh(y)), x.dtype)


def _gelu_gradient(x, upstream):
    y, upstream = float32(x), float32(upstream)
    tanh = _gelu_tanh(y)
    slope = _SCALE + 3 * _CUBIC * _SCALE * y * y
    gradient = upstream * (0.5 * y * (1.0 - tanh * tanh) * slope + (0.5 * tanh + 0.5))
    return keras.ops.cast(gradient, x.dtype)


def _gelu_tanh(x):
    return keras.ops.tanh(_SCALE * (x + _CUBIC * x * x * x))


def float32(x):
    """Cast a tensor of half precision to float32."""
    return keras.ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


def layer_norm(x, gamma, beta, epsilon):
    """Return the layer normalization of x (T, H), for training; all arguments are float32."""
    return call_with_gradient(_layer_norm(epsilon), x, gamma, beta)


@functools.cache
def _layer_norm(epsilon):
    def function(x, gamma, beta):
        x = x - tf.reduce_mean(x, -1, keepdims=True)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + epsilon)
        x = x * scale

        def gradient(upstream):
            # Sums are computed as matrix products, which read each operand once.
            product = upstream * x
            ones = tf.ones((1, tf.shape(x)[0]))
            sums = (tf.reshape(tf.matmul(ones, z), (-1,)) for z in (product, upstream))
            weights = tf.reshape(gamma, (-1, 1)) / tf.cast(tf.size(gamma), gamma.dtype)
            slope, mean = tf.matmul(product, weights), tf.matmul(upstream, weights)
            return (upstream * gamma - (x * slope + mean)) * scale, *sums

        return x * gamma + beta, gradient

    return function


def inference_layer_norm(x, gamma, beta, epsilon):
    """Return the layer normalization of x (T, H), without a gradient; not for float64.

    x is normalized as T channels of a batch, which TensorFlow fuses into one oneDNN operation in a
    third of the time. Without oneDNN, it takes twice the time. TensorFlow also fuses it on a GPU,
    which then lacks the operation.
    """
    shape = tf.shape(x)
    rows = shape[:1]
    # TensorFlow recognizes this pattern as a layer normalization.
    channels = {"scale": tf.fill(rows, 1.0), "offset": tf.fill(rows, 0.0)}
    empty = {"mean": tf.constant([]), "variance": tf.constant([])}
    x = tf.reshape(x, (1, -1, x.shape[1], 1))
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=x, **channels, **empty, epsilon=epsilon, data_format="NCHW"
    )
    return tf.reshape(normalized.y, shape) * gamma + beta
