"""Operations for CPUs have the results and gradients of the plain operations."""

import concurrent.futures
import functools
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import bert_tf
from bert_tf.modeling import cpu_graph
from bert_tf.modeling.layers import LayerNorm
from bert_tf.modeling.token_layout import PackedLayout
from tests.common import TINY, features


def _results(function, *arguments):
    """Return a function's result in a graph and the gradients with respect to its arguments."""

    @tf.function
    def run(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            y = function(*arguments)
        upstream = tf.cast(tf.sin(tf.range(tf.size(y), dtype=tf.float32)), y.dtype)
        return y, *tape.gradient(y, arguments, tf.reshape(upstream, tf.shape(y)))

    return [np.asarray(tf.cast(y, tf.float64)) for y in run(*map(tf.constant, arguments))]


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float32", 5e-6), ("float64", 1e-13), ("bfloat16", 2**-5), ("float16", 2**-8)],  # rounding
)
@pytest.mark.parametrize("width", [40, 1200])  # the wide one is compiled
def test_gelu(dtype, tolerance, width):
    x = tf.cast(np.linspace(-12, 12, 1200).reshape(-1, width), dtype)

    def formula(x):  # the plain operation uses a float32 constant even in float64
        return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    exact = _results(formula, tf.cast(x, tf.float64))
    plain = _results(lambda x: ops.gelu(x, approximate=True), x)
    results = _results(cpu_graph.gelu, x)
    if dtype == "float32":
        np.testing.assert_allclose(results[0], plain[0], rtol=0, atol=1e-6)
    for got, right, usual in zip(results, exact, plain, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=tolerance)
        assert np.square(got - right).mean() <= 1.25 * np.square(usual - right).mean()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"jit_compile": False}, False), ({"run_eagerly": True}, False)],
)
def test_own_compilation_is_off_where_compile_says_so(options, expected):
    seen, inputs = set(), features()
    del inputs["masked_lm_positions"]
    model = bert_tf.BertClassifier(TINY, 2)
    model.compile("sgd", lambda y, x: seen.add(cpu_graph.may_compile()) or x, **options)
    model.fit(inputs, np.zeros((3, 2)), verbose=0)
    assert seen == {expected}


def test_fit_with_checked_numbers():
    """XLA cannot compile the checks. The kernel is large enough for a compiled update."""
    model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(128)])
    model.compile(bert_tf.AdamWeightDecay(0.1), "mse", jit_compile=False)
    tf.debugging.enable_check_numerics()
    try:
        model.fit(np.ones((2, 128)), np.ones((2, 128)), verbose=0)
    finally:
        tf.debugging.disable_check_numerics()


def test_layer_norm():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(50, 24)) * 3 + 5).astype("float32")
    gamma, beta = rng.normal(size=(2, 24)).astype("float32")
    x[7] = 1.0  # a row without variance
    layer = LayerNorm(epsilon=1e-3)
    layer.build(x.shape)

    def plain(x, gamma, beta):
        x = tf.cast(x, tf.float64)
        x = x - tf.reduce_mean(x, -1, keepdims=True)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + layer.epsilon)
        return x * scale * tf.cast(gamma, tf.float64) + tf.cast(beta, tf.float64)

    def fast(x, gamma, beta):
        return cpu_graph.layer_norm(x, gamma, beta, layer.epsilon)

    expected = _results(plain, x, gamma, beta)
    for got, right in zip(_results(fast, x, gamma, beta), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-5 * np.abs(right).max())
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    for training in (False, True):

        @tf.function
        def call(x, training=training):
            return layer(x, training=training, layout=PackedLayout(tf.ones((1, 50))))

        np.testing.assert_allclose(call(x), expected[0], rtol=0, atol=1e-5)
        for dtype, tolerance in (("bfloat16", 2**-6), ("float16", 2**-9)):
            rounded = tf.cast(x, dtype)
            right = _results(plain, tf.cast(rounded, "float32"), gamma, beta)[0]
            got = tf.cast(call(rounded), "float32")
            np.testing.assert_allclose(got, right, rtol=0, atol=tolerance * np.abs(right).max())


def test_threads_share_traces():
    """TensorFlow builds the gradient of a function at its first use, and not safely in threads."""

    def double(x):
        def gradient(upstream):
            time.sleep(0.1)  # so that the threads would trace it at the same time
            return 2.0 * upstream

        return 2.0 * x, gradient

    x = tf.ones((2, 3))
    expected = _results(lambda x: 2.0 * x, x)
    call = functools.partial(cpu_graph.call_with_gradient, double)
    tf.function(call)(x)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = [*pool.map(lambda _: _results(call, x), range(8))]
    np.testing.assert_array_equal(results, [expected] * 8)
