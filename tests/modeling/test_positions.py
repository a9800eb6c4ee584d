"""Computing the last layer only at the positions that are read gives the same results."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertModel, BertPretrainer
from bert_tf.modeling.layers import Dense
from bert_tf.modeling.models import INPUTS
from tests.common import NO_DROPOUT, enlarge_weights, features
from tests.modeling.conftest import outputs_and_gradients

BATCH = features(batch=4)


def test_outputs_and_gradients_equal_those_of_the_full_encoder(monkeypatch):
    keras.utils.set_random_seed(3)
    model, num_read = BertPretrainer(NO_DROPOUT), 4 * (1 + 2)
    enlarge_weights(model)

    encoded = model.get_layer("bert")({x: model.input[x] for x in INPUTS})
    words, positions = encoded["sequence_output"], model.input["masked_lm_positions"]
    full = keras.Model(model.input, {
        "masked_lm_logits": model.get_layer("masked_lm")(words, positions),
        "next_sentence_logits": model.get_layer("next_sentence")(encoded["pooled_output"]),
    })  # fmt: skip
    num_rows = {}

    def call(layer, x, *args, **kwargs):
        num_rows.setdefault(layer.name, x.shape[0])
        return Dense.call(layer, x, *args, **kwargs)

    for name in ("query", "key", "value", "attention_dense", "intermediate", "output_dense"):
        layer = getattr(model.get_layer("bert").get_layer("layer_1"), name)
        monkeypatch.setattr(layer, "call", functools.partial(call, layer))
    outputs, gradients = outputs_and_gradients(model, BATCH)
    assert num_rows == {
        "key": 4 * 8, "value": 4 * 8, "query": num_read, "attention_dense": num_read,
        "intermediate": num_read, "output_dense": num_read,
    }  # fmt: skip
    expected_outputs, expected = outputs_and_gradients(full, BATCH)
    assert gradients.keys() == expected.keys()
    for name, value in outputs.items():
        np.testing.assert_allclose(value, expected_outputs[name], atol=1e-6, rtol=1e-6)
    for name, gradient in gradients.items():
        limit = 1e-6 * max(float(tf.reduce_max(tf.abs(expected[name]))), 1.0)
        np.testing.assert_allclose(gradient, expected[name], atol=limit, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("with_attention_probs", [False, True])
def test_positions_of_the_encoder(with_attention_probs):
    model = BertModel(NO_DROPOUT, with_attention_probs=with_attention_probs)
    positions = np.array([[2, 0, 1], [1, 1, 1], [0, 2, 2], [2, 1, 0]], "int32")
    whole, read = model(BATCH), model(BATCH, positions=positions)
    assert set(read) == {"sequence_output", "pooled_output"}
    expected = np.take_along_axis(np.array(whole["sequence_output"]), positions[:, :, None], 1)
    np.testing.assert_allclose(read["sequence_output"], expected, atol=1e-6)
    first = model.get_layer("pooler")(expected[:, 0])
    np.testing.assert_allclose(read["pooled_output"], first, atol=1e-6)
