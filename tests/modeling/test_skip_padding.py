"""`skip_padding` computes only tokens; test_modeling.py checks its results."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertClassifier, BertModel, BertTokenClassifier
from bert_tf.modeling.layers import Dense
from tests.common import tiny
from tests.modeling.conftest import BackboneTest, make_model, padded_batch


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
    """The number of tokens is a multiple of 16, or not."""
    model, batch = make_model(BertTokenClassifier)
    batch = {name: value[:num_rows] for name, value in batch.items()}
    batch["input_mask"] = np.ones_like(batch["input_mask"])
    BackboneTest(lambda _: model, batch, None).skipped_padding()
