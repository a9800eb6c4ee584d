"""Tagging words: the loss, the decoding and the metrics."""

import itertools

import numpy as np
import tensorflow as tf

from bert_tf.modeling import BertFeatureTokenClassifier, BertTokenClassifier
from bert_tf.tasks.base import Task
from bert_tf.tasks.token_classification.features import NOT_WORD_START, SENTENCE_START
from bert_tf.tasks.token_classification.schemes import convert_tags
from bert_tf.tasks.token_classification.scoring import accuracy, count_spans


class TaggingTask(Task):
    """Trains a tagger on records of `records.TAGGING`; L is the number of tags."""

    loss_names = ("tagging_loss",)

    def __init__(self, config, tags, max_seq_length, dtype=None, on_features=None):
        """Makes the model.

        Args:
          config: a `BertConfig`.
          tags: `features.Tags`.
          max_seq_length: S, which predictions are padded to.
          dtype: a Keras dtype policy.
          on_features: the arguments `way` and `lstm_size` of a `BertFeatureTokenClassifier`, as a
          dict; None
            to train the whole model.
        """
        self.model = make_model(config, len(tags.names), dtype, on_features)
        self._tags, self._size = tags, max_seq_length

    @property
    def metric_names(self):
        return metric_names(self._tags)

    def loss_weights(self, batch):
        is_word = tf.not_equal(batch["word_starts"], NOT_WORD_START)
        return {"words": tf.reduce_sum(tf.cast(is_word, tf.float32))}

    def losses(self, outputs, batch, weights):
        loss = tf.reduce_sum(self._losses(outputs, batch))
        # A batch of windows may have no word, where each is tagged in another.
        return {"tagging_loss": loss / tf.maximum(weights["words"], 1.0)}

    def _losses(self, outputs, batch):
        """The loss of each word, 0 where none starts, (B, S)."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["tag_ids"], logits=outputs["logits"]
        )
        return tf.where(tf.not_equal(batch["word_starts"], NOT_WORD_START), losses, 0.0)

    def predictions(self, outputs, batch):
        """The best tags, those of the data and the starts of words (B, S), and the loss (B,)."""
        found = {
            "found": tf.argmax(outputs["logits"], -1, output_type=tf.int32),
            "tag_ids": batch["tag_ids"],
            "word_starts": batch["word_starts"],
        }
        # Batches may be of any length, and all predictions go into one array.
        padding = [[0, 0], [0, self._size - tf.shape(batch["tag_ids"])[1]]]
        found = {
            name: tf.ensure_shape(tf.pad(x, padding), (None, self._size))
            for name, x in found.items()
        }
        return {**found, "loss": tf.reduce_sum(self._losses(outputs, batch), -1)}

    def tags(self, predictions, name="found"):
        """The tags of all words: list of a list of tags for each sentence.

        Args:
          predictions: dict of arrays (N, ...), all windows in order.
          name: "found" for those that the model gives, "tag_ids" for those of the data.
        """
        starts = predictions["word_starts"]
        is_word = starts != NOT_WORD_START
        names = [self._tags.names[i] for i in predictions[name][is_word]]
        edges = [*np.flatnonzero(starts[is_word] == SENTENCE_START).tolist(), len(names)]
        return [names[i:j] for i, j in itertools.pairwise(edges)]

    def _as_data(self, sentences):
        """Lists of tags as those of the data's scheme, which are what conlleval would read."""
        return [convert_tags(tags, self._tags.scheme, self._tags.data_scheme) for tags in sentences]

    def metrics(self, predictions):
        true, found = self.tags(predictions, "tag_ids"), self.tags(predictions)
        num_words = max(sum(map(len, true)), 1)
        loss = float(predictions["loss"].sum(dtype="float64")) / num_words
        results = {"eval_accuracy": accuracy(self._as_data(true), self._as_data(found))}
        if self._tags.scheme != "none":
            figures = count_spans(true, found).precision_recall_f1()
            names = ("eval_precision", "eval_recall", "eval_f1")
            results |= dict(zip(names, figures, strict=True))
        return {**results, "eval_loss": loss, "loss": loss}


def metric_names(tags):
    """The names of what `TaggingTask.metrics` gives."""
    spans = () if tags.scheme == "none" else ("eval_precision", "eval_recall", "eval_f1")
    return ("eval_accuracy", *spans, "eval_loss", "loss")


def make_model(config, num_tags, dtype=None, on_features=None):
    """Return a `BertTokenClassifier`, or with `on_features` a `BertFeatureTokenClassifier`."""
    if on_features:
        return BertFeatureTokenClassifier(config, num_tags, dtype=dtype, **on_features)
    return BertTokenClassifier(config, num_tags, dtype)
