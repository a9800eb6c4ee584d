"""Pipelines can be copied, pickled and printed as scikit-learn and Keras users expect."""

import copy
import pickle

import keras
import numpy as np
import pytest

import bert_tf
from tests.pipelines.classifier_helpers import LABELS, TEXTS, make


@pytest.mark.slow
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_after_predict(encoder_folder, duplicate, eagerly):
    """A copy has the same answers and training state, and separate weights."""
    classifier = make(encoder_folder)
    classifier.compile(run_eagerly=True)
    classifier.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
    expected = classifier.predict(TEXTS)
    other = duplicate(classifier)
    assert other.predict(TEXTS) == expected and other.config == classifier.config
    assert not other._is_random
    keras.utils.set_random_seed(1)
    other.fit(TEXTS[:2], LABELS[:2], epochs=2, learning_rate=0.1, verbose=0)
    assert other.model.optimizer.iterations.numpy() == 2
    assert other.predict(TEXTS) != expected == classifier.predict(TEXTS)


def test_copies_keep_what_was_compiled(encoder_folder, eagerly):
    classifier = make(encoder_folder)
    assert copy.deepcopy(classifier)._is_random
    classifier.compile("adam", metrics=["mae"], run_eagerly=True)
    classifier.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
    expected = classifier.predict(TEXTS[:2])
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert other.predict(TEXTS[:2]) == expected
        other.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
        assert isinstance(other.model.optimizer, keras.optimizers.Adam)
        assert other.model.optimizer.iterations.numpy() == 2
    assert classifier.predict(TEXTS[:2]) == expected


@pytest.mark.parametrize("make_pipeline", [bert_tf.SentenceEncoder, bert_tf.FillMask])
def test_copies_of_pipelines_without_training(model_folder, make_pipeline):
    pipeline = make_pipeline.from_preset(str(model_folder), max_seq_length=12)
    texts = ["a b", "c [MASK]"]
    expected = list(pipeline.predict(texts))
    for other in (copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
        assert other.max_seq_length == 12 and other.model is not pipeline.model
        for answer, value in zip(other.predict(texts), expected, strict=True):
            np.testing.assert_equal(answer, value)


def test_repr_and_summary(encoder_folder, capsys):
    classifier = make(encoder_folder)
    count = classifier.model.count_params()
    assert repr(classifier) == (
        f"<TextClassifier of BertClassifier: num_layers 1, num_parameters {count}, "
        "max_seq_length 32, labels neg, pos>"
    )
    encoder = bert_tf.SentenceEncoder.from_preset(str(encoder_folder), layer=-1, max_seq_length=8)
    assert repr(encoder).startswith("<SentenceEncoder of BertModel: num_layers 1, num_parameters ")
    classifier.summary()
    assert f"Total params: {count:,}" in capsys.readouterr().out
