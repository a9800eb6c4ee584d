"""Token classification: model, loss, predictions and metrics."""

import itertools

import numpy as np
import tensorflow as tf

from bert_tf.modeling import BertTokenClassifier
from bert_tf.tasks.token_classification.features import NOT_WORD_START, SENTENCE_START
from bert_tf.tasks.token_classification.schemes import convert_tags
from bert_tf.tasks.token_classification.scoring import SpanCounts, accuracy
from bert_tf.training.task import Task


class TokenClassificationTask(Task):
    """Trains a token classifier on records with the schema `records.TAGGING`."""

    loss_names = ("tagging_loss",)

    def __init__(self, config, dtype=None, model=None):
        self.model = model or make_model(config, dtype)
        self.metric_names = metric_names(config.tags)
        self._tags, self._length = config.tags, config.max_seq_length

    def loss_weights(self, batch):
        is_word = tf.not_equal(batch["word_starts"], NOT_WORD_START)
        return {"words": tf.reduce_sum(tf.cast(is_word, tf.float32))}

    def losses(self, outputs, batch, weights):
        loss = tf.reduce_sum(self._losses(outputs, batch))
        # A batch may have no words if all are classified in other windows.
        return {"tagging_loss": loss / tf.maximum(weights["words"], 1.0)}

    def _losses(self, outputs, batch):
        """Return the loss of each word at its first token, 0 elsewhere, (B, S)."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["tag_ids"], logits=outputs["logits"]
        )
        return tf.where(tf.not_equal(batch["word_starts"], NOT_WORD_START), losses, 0.0)

    def predictions(self, outputs, batch):
        """Return predicted tags, true tags and word starts (B, max_seq_length), and loss (B,)."""
        predictions = {"loss": tf.reduce_sum(self._losses(outputs, batch), -1)}
        values = {
            "predicted": tf.argmax(outputs["logits"], -1, output_type=tf.int32),
            "tag_ids": batch["tag_ids"],
            "word_starts": batch["word_starts"],
        }
        # Pad batches of different lengths, because their predictions are concatenated.
        padding = [[0, 0], [0, self._length - tf.shape(batch["tag_ids"])[1]]]
        for name, value in values.items():
            predictions[name] = tf.ensure_shape(tf.pad(value, padding), (None, self._length))
        return predictions

    def tags(self, predictions, name="predicted"):
        """Return a list of tags for each sentence; `name` is "predicted" or "tag_ids"."""
        starts = predictions["word_starts"]
        is_word = starts != NOT_WORD_START
        names = [self._tags.names[i] for i in predictions[name][is_word]]
        edges = [*np.flatnonzero(starts[is_word] == SENTENCE_START).tolist(), len(names)]
        return [names[i:j] for i, j in itertools.pairwise(edges)]

    def metrics(self, predictions):
        labels, predicted = self.tags(predictions, "tag_ids"), self.tags(predictions)
        num_words = max(sum(map(len, labels)), 1)
        loss = float(predictions["loss"].sum(dtype="float64")) / num_words
        # conlleval computes the accuracy in the scheme of the data.
        schemes = self._tags.scheme, self._tags.data_scheme
        converted = [[convert_tags(x, *schemes) for x in tags] for tags in (labels, predicted)]
        scores = ()
        if self._tags.scheme != "none":
            scores = SpanCounts(labels, predicted).precision_recall_f1()
        values = (accuracy(*converted), *scores, loss, loss)
        return dict(zip(self.metric_names, values, strict=True))


def metric_names(tags):
    spans = () if tags.scheme == "none" else ("eval_precision", "eval_recall", "eval_f1")
    return ("eval_accuracy", *spans, "eval_loss", "loss")


def make_model(config, dtype=None):
    return BertTokenClassifier(config.bert_config, len(config.tags.names), dtype)
