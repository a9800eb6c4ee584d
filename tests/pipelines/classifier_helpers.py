"""Classifiers to train in tests, the batches that they pass to Keras, and a fake DataFrame."""

import keras
import numpy as np
import tensorflow as tf

import bert_tf

TEXTS = ["a b", "c d e", "a", "c", "b a a d e f g h i", "c d"] * 2
LABELS = ["pos", "neg"] * 6
PAIRS = [("a b", "c"), ("c", "d e f"), ("a", ""), ("e", "a")]


def make(folder, labels=("neg", "pos"), **options):
    keras.utils.set_random_seed(0)
    return bert_tf.TextClassifier.from_preset(folder, labels=labels, **options)


def make_quick(folder, **options):
    """Return an eager classifier with random tokens, since tracing the tokenizer takes a second."""
    classifier = make(folder, **options)

    def tokenize(*texts):
        ids = tf.stack([tf.strings.to_hash_bucket_fast(x, 18) for x in texts], 1)
        return {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": 0 * ids}

    classifier.tokenizer, classifier._log_truncated = tokenize, lambda *_: None
    classifier.compile(run_eagerly=True)
    return classifier


def no_history():
    """Return the history of no epochs."""
    history = keras.callbacks.History()
    history.on_train_begin()
    return history


def captured_fit(classifier, *arguments, **options):
    """Return the training and validation batches that `fit` passes to Keras."""
    captured = {}

    def fit(dataset, validation_data=None, **_):
        captured["train"], captured["validation"] = dataset, validation_data
        return no_history()

    classifier.model.fit = fit
    classifier.fit(*arguments, **options)
    del classifier.model.fit
    return captured["train"], captured["validation"]


class Frame:
    """A fake DataFrame with the attributes that bert_tf uses."""

    def __init__(self, **columns):
        self._values, self.columns = np.array(list(columns.values()), object).T, list(columns)

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return self._values[:, self.columns.index(name)]

    def to_numpy(self):
        return self._values
