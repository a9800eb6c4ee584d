"""`skip_padding` computes only tokens; test_modeling.py checks its results."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertClassifier, BertModel, BertTokenClassifier
from bert_tf.modeling.layers import Dense
from tests.common import tiny
from tests.modeling.conftest import make_model, padded_batch


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
    """One graph serves full and padded batches; the number of rows may be a multiple of 16."""
    model, batch = make_model(BertTokenClassifier)
    padded = {name: value[:num_rows] for name, value in batch.items()}
    full = {**padded, "input_mask": np.ones_like(padded["input_mask"])}
    specs = {name: tf.TensorSpec((None, None), value.dtype) for name, value in padded.items()}

    def run(batch, skip_padding):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True, skip_padding=skip_padding)["logits"]
            mask = tf.cast(batch["input_mask"], logits.dtype)[:, :, None]
            loss = tf.reduce_sum(tf.square(logits) * mask)
        gradients = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(x) for x in gradients if x is not None]

    skipping = tf.function(lambda x: run(x, True), input_signature=[specs])
    plain = tf.function(lambda x: run(x, False), input_signature=[specs])
    for x in (full, padded, full):
        for found, expected in zip(
            tf.nest.flatten(skipping(x)), tf.nest.flatten(plain(x)), strict=True
        ):
            np.testing.assert_allclose(
                tf.convert_to_tensor(found), tf.convert_to_tensor(expected), atol=1e-4, rtol=1e-5
            )
