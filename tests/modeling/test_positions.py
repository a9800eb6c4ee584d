"""Computing the last layer only at the positions that are read gives the same results."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertModel, BertPretrainer
from bert_tf.modeling.layers import Dense
from tests.common import NO_DROPOUT, enlarge_weights, features

BATCH = features(batch=4)


def test_outputs_and_gradients_equal_those_of_the_full_encoder(monkeypatch):
    keras.utils.set_random_seed(3)
    model, num_read = BertPretrainer(NO_DROPOUT), 4 * (1 + 2)
    enlarge_weights(model)

    def full(batch):
        encoded = model.get_layer("bert")(batch)
        words, positions = encoded["sequence_output"], batch["masked_lm_positions"]
        return {
            "masked_lm_logits": model.get_layer("masked_lm")(words, positions),
            "next_sentence_logits": model.get_layer("next_sentence")(encoded["pooled_output"]),
        }

    weights = [v.value for v in model.trainable_variables]
    num_rows = {}

    def call(layer, x, *args, **kwargs):
        num_rows[layer.name] = x.shape[0]
        return Dense.call(layer, x, *args, **kwargs)

    for name in ("query", "key", "value", "attention_dense", "intermediate", "output_dense"):
        layer = getattr(model.get_layer("bert").get_layer("layer_1"), name)
        monkeypatch.setattr(layer, "call", functools.partial(call, layer))

    def run(function):
        with tf.GradientTape() as tape:
            outputs = function(BATCH)
            rng = np.random.default_rng(0)
            loss = sum(
                tf.reduce_sum(value * rng.normal(size=value.shape).astype("float32"))
                for _, value in sorted(outputs.items())
            )
        gradients = tape.gradient(loss, weights)
        return outputs, [None if g is None else tf.convert_to_tensor(g) for g in gradients]

    outputs, gradients = run(lambda batch: model(batch, training=True))
    assert num_rows == {
        "key": 4 * 8, "value": 4 * 8, "query": num_read, "attention_dense": num_read,
        "intermediate": num_read, "output_dense": num_read,
    }  # fmt: skip
    expected_outputs, expected = run(full)
    for name, value in outputs.items():
        np.testing.assert_allclose(value, expected_outputs[name], atol=1e-6, rtol=1e-6)
    for weight, gradient, other in zip(weights, gradients, expected, strict=True):
        assert (gradient is None) == (other is None)
        if gradient is not None:
            limit = 1e-6 * max(float(tf.reduce_max(tf.abs(other))), 1.0)
            np.testing.assert_allclose(gradient, other, atol=limit, rtol=1e-5, err_msg=weight.name)


@pytest.mark.parametrize("with_attention_probs", [False, True])
def test_positions_of_the_encoder(with_attention_probs):
    model = BertModel(NO_DROPOUT, with_attention_probs)
    positions = np.array([[2, 0, 1], [1, 1, 1], [0, 2, 2], [2, 1, 0]], "int32")
    whole, read = model(BATCH), model(BATCH, positions=positions)
    assert set(read) == {"sequence_output", "pooled_output"}
    expected = np.take_along_axis(np.array(whole["sequence_output"]), positions[:, :, None], 1)
    np.testing.assert_allclose(read["sequence_output"], expected, atol=1e-6)
    first = model.get_layer("pooler")(expected[:, 0])
    np.testing.assert_allclose(read["pooled_output"], first, atol=1e-6)
