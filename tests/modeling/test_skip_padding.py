"""With `skip_padding`, only tokens are computed, with the same results and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.modeling import (
    BertClassifier,
    BertFeatureTokenClassifier,
    BertModel,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from bert_tf.modeling.layers import Dense
from tests.common import NO_DROPOUT, TINY, enlarge_weights, features

LABELS = {"num_labels": 3}
_OF_SEQUENCES = ("pooled_output", "masked_lm_logits", "next_sentence_logits")
MODELS = {
    BertClassifier: LABELS,
    BertFeatureTokenClassifier: {**LABELS, "layer_combination": "weighted_sum_all"},
    BertModel: {"with_attention_probs": True},
    BertMultipleChoice: {},
    BertPretrainer: {},
    BertSpanLabeler: {},
    BertTokenClassifier: LABELS,
}


def _batch():
    """Return four sequences of different lengths: one with a gap, and one that is all padding."""
    batch = features(batch=4)
    mask = np.zeros_like(batch["input_mask"])
    mask[0, :8], mask[1, :5], mask[2, [0, 3]] = 1, 1, 1
    positions = np.array([[1, 7], [4, 2], [3, 0], [0, 0]], "int32")
    return {**batch, "input_mask": mask, "masked_lm_positions": positions}


def _make(model_class, dtype=None):
    """Return a model with large weights and without dropout, and its batch."""
    keras.utils.set_random_seed(3)
    model = model_class(NO_DROPOUT, dtype=dtype, **MODELS[model_class])
    enlarge_weights(model)
    batch = _batch()
    if model_class is BertMultipleChoice:
        batch = {name: value.reshape(2, 2, -1) for name, value in batch.items()}
    return model, batch


def _of_tokens(outputs, batch):
    """Return outputs as a flat dict, without padding and the sequence that is all padding."""
    mask, values = batch["input_mask"], {}
    for name, value in outputs.items():
        for i, x in enumerate(value if isinstance(value, list) else [value]):
            x = tf.cast(x, tf.float32)
            if mask.ndim == 3:  # two choices of two examples
                x = x[0]
            elif name == "attention_probs":
                x = tf.boolean_mask(tf.transpose(x, (0, 2, 1, 3)), mask == 1)
            elif name in _OF_SEQUENCES or (len(x.shape) == 2 and name == "logits"):
                x = x[:-1]
            else:
                x = tf.boolean_mask(x, mask == 1)
            values[f"{name}_{i}"] = x
    return values


def _run(model, batch, **arguments):
    """Return the outputs for tokens, and the gradients of their sum with random weights."""
    specs = {
        name: tf.TensorSpec((value.shape[0], *[None] * (value.ndim - 1)), value.dtype)
        for name, value in batch.items()
    }
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(size=x.shape).astype("float32")
        for name, x in sorted(_of_tokens(model(batch), batch).items())
    }

    @tf.function(input_signature=[specs], autograph=False)
    def run(inputs):
        with tf.GradientTape() as tape:
            outputs = _of_tokens(model(inputs, training=True, **arguments), batch)
            loss = sum(tf.reduce_sum(x * weights[name]) for name, x in outputs.items())
        variables = {v.path: v.value for v in model.trainable_variables}
        gradients = tape.gradient(loss, variables)
        return outputs, {
            name: tf.convert_to_tensor(x) for name, x in gradients.items() if x is not None
        }

    return run(batch)


@pytest.mark.parametrize(
    "model_class",
    [
        BertPretrainer,
        BertTokenClassifier,
        *(
            pytest.param(model_class, marks=pytest.mark.slow)
            for model_class in MODELS
            if model_class not in (BertPretrainer, BertTokenClassifier)
        ),
    ],
)
def test_outputs_and_gradients_are_the_same(model_class):
    model, batch = _make(model_class)
    outputs, gradients = _run(model, batch)
    others, other_gradients = _run(model, batch, skip_padding=True)
    assert outputs.keys() == others.keys()
    for name, value in outputs.items():
        np.testing.assert_allclose(others[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
    assert gradients.keys() == other_gradients.keys()
    for name, value in gradients.items():
        limit = 2e-6 * max(float(tf.reduce_max(tf.abs(value))), 1.0)
        np.testing.assert_allclose(
            other_gradients[name], value, atol=limit, rtol=1e-5, err_msg=name
        )


@pytest.mark.slow
def test_recomputation_and_mixed_precision():
    model, batch = _make(BertClassifier, "mixed_bfloat16")
    _, plain = _run(model, batch)
    largest = max(float(tf.reduce_max(tf.abs(x))) for x in plain.values())
    for arguments in ({}, {"recompute": True}):
        _, skipped = _run(model, batch, skip_padding=True, **arguments)
        for name, value in plain.items():
            # Exact gradients of the biases of keys are 0.
            limit = 0.03 * max(float(tf.reduce_max(tf.abs(value))), 1e-3 * largest)
            np.testing.assert_allclose(skipped[name], value, atol=limit, rtol=0, err_msg=name)


def test_only_tokens_are_computed(monkeypatch):
    """The rows of the products, rounded up; also by the attribute of the model, as in `fit`."""
    model, batch = _make(BertTokenClassifier)
    num_rows = set()
    call = Dense.call
    monkeypatch.setattr(
        Dense,
        "call",
        lambda layer, x, **kwargs: num_rows.add(x.shape[0]) or call(layer, x, **kwargs),
    )
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
    """It is the share of a replica in the last batch of an evaluation."""
    model, batch = _make(BertClassifier)
    batch = {**batch, "input_mask": 0 * batch["input_mask"]}
    run = tf.function(lambda: model(batch, skip_padding=True)["logits"])
    assert np.isfinite(run()).all()


def test_dropout():
    """Each call has other masks; outputs for padding are 0."""
    keras.utils.set_random_seed(1)
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), "hidden_dropout_prob": 0.3})
    model, batch = BertModel(config), _batch()
    run = tf.function(lambda: model(batch, training=True, skip_padding=True)["sequence_output"])
    assert not np.allclose(run(), run())
    zeros = np.array(run()) == 0
    np.testing.assert_array_equal(zeros.all(-1), batch["input_mask"] == 0)


def test_an_empty_batch():
    """With Keras' `evaluate` it is the share of a replica in the last batch."""
    model, batch = _make(BertTokenClassifier)
    empty = {name: value[:0] for name, value in batch.items()}
    run = tf.function(lambda: model(empty, skip_padding=True)["logits"])
    assert run().shape == (0, 8, 3)
