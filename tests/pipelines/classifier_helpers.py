"""Classifiers to train in tests, and the batches that `fit` passes to Keras."""

import keras

import bert_tf

TEXTS = ["a b", "c d e", "a", "c", "b a a d e f g h i", "c d"] * 2
LABELS = ["pos", "neg"] * 6
PAIRS = [("a b", "c"), ("c", "d e f"), ("a", ""), ("e", "a")]


def make(folder, labels=("neg", "pos"), **options):
    keras.utils.set_random_seed(0)
    return bert_tf.TextClassifier.from_preset(folder, labels=labels, **options)


def captured_fit(pipeline, *arguments, **options):
    """Return an epoch of the batches that `fit` passes to Keras, as dicts of lists."""
    epoch = []

    def fit(batches, steps_per_epoch, **_):
        for batch in batches.take(steps_per_epoch).as_numpy_iterator():
            epoch.append({name: x.tolist() for name, x in batch.items()})

    pipeline.model.fit = fit
    pipeline.fit(*arguments, **options)
    del pipeline.model.fit
    return epoch
