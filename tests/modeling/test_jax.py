"""The model on Keras' JAX backend without TensorFlow; test_fit_equals_loop.py has its numbers."""

import importlib.util

import pytest

from tests.common import run_python


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_skipped_padding_dropout_and_recomputation(root):
    code = """
import sys
import bert_tf
sys.modules["tensorflow"] = None
import keras, numpy as np
from tests.common import TINY, features
bert = bert_tf.BertModel(TINY, dtype="mixed_bfloat16")

class Pooled(keras.layers.Layer):  # Keras infers its shapes by a call with symbolic sizes

    def __init__(self):
        super().__init__()
        self.bert = bert

    def call(self, inputs):
        return self.bert(inputs, recompute=True)["pooled_output"]

inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in bert.input}
x = Pooled()(inputs)
model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
batch = {name: features()[name] for name in model.input}
plain, packed = (np.float32(bert(batch, skip_padding=x)["pooled_output"]) for x in (False, True))
np.testing.assert_allclose(packed, plain, atol=0.02)
history = model.fit(batch, np.array([0, 1, 0]), epochs=2, verbose=0).history
assert np.isfinite(history["loss"]).all()
"""
    run_python("-c", code, KERAS_BACKEND="jax", PYTHONPATH=str(root))


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
@pytest.mark.slow
def test_attention_of_gpus_equals_attention_with_stored_probabilities(root):
    """JAX's "xla" implementation computes on a CPU what cuDNN's computes on a GPU."""
    code = """
import jax, keras, numpy as np
import bert_tf
from bert_tf.modeling import attention
attention.IMPLEMENTATION = "xla"
fused, calls = attention.fused, []
attention.fused = lambda *x: calls.append(1) or fused(*x)
mask = np.array([[1] * 8, [1, 0, 1, 1, 0, 1, 1, 0], [1] + [0] * 7], "int32")
x = np.random.default_rng(0).normal(size=(3, 8, 32)).astype("float32")
for rate, training, expected_calls in ((0.1, False, 1), (0.0, True, 1), (0.1, True, 0)):
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": rate}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = bert_tf.BertConfig(vocab_size=9, initializer_range=0.3, **rates, **sizes)
    layer = bert_tf.modeling.TransformerLayer(config, name="layer_0", dtype="mixed_bfloat16")
    layer.build()
    seeds = [v.value for v in layer.non_trainable_variables]

    @jax.jit
    def run(weights, x):
        y, _ = layer.stateless_call(weights, seeds, x, input_mask=mask, training=training)
        y = y.astype("float32") * mask[:, :, None]
        return (y * np.arange(32)).sum(), y

    results = []
    for capability in (0.0, 9.0):
        attention.capability = lambda x=capability: x
        calls.clear()
        jax.clear_caches()
        weights = [v.value for v in layer.trainable_variables]
        gradients, y = jax.grad(run, (0, 1), has_aux=True)(weights, x)
        results.append((y, *jax.tree.leaves(gradients)))
        assert len(calls) == (expected_calls if capability else 0), (rate, training, calls)
    names = ["y", *(v.path for v in layer.trainable_variables), "x"]
    for name, before, after in zip(names, *results, strict=True):
        if "key/bias" not in name:  # its gradient is 0, apart from rounding
            scale = np.abs(before).max()
            np.testing.assert_allclose(after / scale, before / scale, atol=0.03, err_msg=name)
calls.clear()
layer(x[:, :7], input_mask=mask[:, :7])  # cuDNN does not accept an odd length for gradients
assert not calls
"""
    run_python("-c", code, KERAS_BACKEND="jax", PYTHONPATH=str(root))
