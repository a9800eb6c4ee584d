"""The model on Keras' JAX backend without TensorFlow: outputs and training steps."""

import importlib.util
import os

import keras
import numpy as np
import pytest

from bert_tf.modeling import BertPretrainer
from tests.common import NO_DROPOUT, features, run_python

# Lengths other than 8 need a model with unknown sequence length.
LENGTHS = (8, 5)

ON_JAX = """
import sys
sys.path += sys.argv[2:]
import bert_tf  # requires that TensorFlow is installed, but does not import it
sys.modules["tensorflow"] = None  # import tensorflow raises an error
import keras, numpy as np
from tests.modeling import test_jax
model = keras.saving.load_model(sys.argv[1] + "/model.keras")
assert keras.backend.backend() == "jax"
np.savez(sys.argv[1] + "/jax.npz", **test_jax.run(model))
"""


def batch(length):
    return features(length=length)


def run(model):
    """Return the outputs of a model and its weights after training steps."""
    results = {}
    for length in LENGTHS:
        for name, value in model.predict(batch(length), verbose=0).items():
            results[f"{name}_{length}"] = value
        # In eager mode JAX can skip padding too.
        outputs = model(batch(length), skip_padding=True)
        results[f"skip_padding_{length}"] = outputs["masked_lm_logits"]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.SGD(0.1),
        {"masked_lm_logits": loss, "next_sentence_logits": loss},
    )
    labels = {
        "masked_lm_logits": np.array([[3, 4], [5, 6], [7, 8]]),
        "next_sentence_logits": np.array([0, 1, 0]),
    }
    for length in LENGTHS:
        results[f"loss_{length}"] = model.train_on_batch(batch(length), labels)[:1]
    results.update({f"weight_{i}": value for i, value in enumerate(model.get_weights())})
    return results


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
@pytest.mark.slow
def test_equals_tensorflow(tmp_path):
    model = BertPretrainer(NO_DROPOUT)
    model.save(tmp_path / "model.keras")
    expected = run(model)
    folder = os.path.dirname(__file__)
    run_python("-c", ON_JAX, tmp_path, folder, os.path.dirname(folder), KERAS_BACKEND="jax")
    results = dict(np.load(tmp_path / "jax.npz"))
    assert results.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, atol=2e-5, rtol=0, err_msg=name)


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_dropout_and_recomputation_train():
    code = """
import sys
sys.path += sys.argv[1:]
import bert_tf
sys.modules["tensorflow"] = None
import keras, numpy as np
from tests.common import TINY, features
assert not bert_tf.BertConfig.from_dict(TINY.to_dict()) != TINY
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
history = model.fit(batch, np.array([0, 1, 0]), epochs=2, verbose=0).history
assert np.isfinite(history["loss"]).all()
"""
    folder = os.path.dirname(os.path.dirname(__file__))
    run_python("-c", code, folder, KERAS_BACKEND="jax")
