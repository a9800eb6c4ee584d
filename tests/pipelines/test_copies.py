"""Pipelines can be copied, pickled and printed as scikit-learn and Keras users expect."""

import copy
import pickle

import keras
import numpy as np
import pytest

import bert_tf
from tests.pipelines.classifier_helpers import LABELS, TEXTS, make


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
