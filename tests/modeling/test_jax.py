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
