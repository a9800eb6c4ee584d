"""`skip_padding` and `positions` compute only what is read; the results are the same."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer, BertTokenClassifier
from bert_tf.modeling.layers import Dense
from bert_tf.tasks.sentence_embedding.losses import Pooling, SentenceEmbeddingModel
from bert_tf.tokenization.settings import INPUTS
from tests.common import NO_DROPOUT, enlarge_weights, features, tiny
from tests.modeling.conftest import BackboneTest, make_model, outputs_and_gradients, padded_batch


def test_only_tokens_are_computed(monkeypatch):
    """Products have one row per token, rounded up. The model's attribute has the same effect."""
    model, batch = make_model(BertTokenClassifier)
    num_rows = set()
    call = Dense.call

    def counted(layer, x, **kwargs):
        num_rows.add(x.shape[0])
        return call(layer, x, **kwargs)

    monkeypatch.setattr(Dense, "call", counted)
    model(batch, skip_padding=True)
    assert batch["input_mask"].sum() == 15
    assert num_rows == {4, 16}  # the pooler, and the layers
    num_rows.clear()
    model.skip_padding = True
    model(batch)
    assert num_rows == {4, 16}
    num_rows.clear()
    columns = SentenceEmbeddingModel(model.get_layer("bert"), Pooling("mean", -1, False))
    columns({name: x[:, None] for name, x in batch.items()}, skip_padding=True)
    assert num_rows == {4, 16}
    num_rows.clear()
    model(batch, skip_padding=False)
    assert num_rows == {4, batch["input_mask"].size}


def test_a_batch_that_is_all_padding():
    """A replica gets such a batch at the end of an evaluation."""
    model, batch = make_model(BertClassifier)
    batch = {**batch, "input_mask": 0 * batch["input_mask"]}
    run = tf.function(lambda: model(batch, skip_padding=True)["logits"])
    assert np.isfinite(run()).all()


def test_dropout():
    """Each call draws new masks; outputs at padding are 0."""
    keras.utils.set_random_seed(1)
    model, batch = BertModel(tiny(hidden_dropout_prob=0.3)), padded_batch()
    run = tf.function(lambda: model(batch, training=True, skip_padding=True)["sequence_output"])
    assert not np.allclose(run(), run())
    zeros = np.array(run()) == 0
    np.testing.assert_array_equal(zeros.all(-1), batch["input_mask"] == 0)


@pytest.mark.parametrize("num_rows", [2, 3])
def test_batches_without_padding(num_rows):
    """The number of tokens is a multiple of 16, or not."""
    model, batch = make_model(BertTokenClassifier)
    batch = {name: value[:num_rows] for name, value in batch.items()}
    batch["input_mask"] = np.ones_like(batch["input_mask"])
    BackboneTest(lambda _: model, batch, None).skipped_padding()


# The last layer is computed only at the positions that are read.

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
