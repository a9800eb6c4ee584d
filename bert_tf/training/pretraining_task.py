"""Masked LM and next sentence (or sentence order) prediction (BERT paper, section 3.1)."""

import numpy as np
import tensorflow as tf

from bert_tf.modeling import BertPretrainer
from bert_tf.training.task import Task


class PretrainingTask(Task):
    """Trains a `BertPretrainer` on pre-training records; P is the number of prediction slots.

    Without `has_pairs`, text pairs have no labels, and the pooler and the next sentence head are
    not trained.
    """

    loss_names = ("masked_lm_loss", "next_sentence_loss")
    metric_names = (
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
        "loss",
    )

    def __init__(self, config, dtype=None, has_pairs=True):
        self.model = BertPretrainer(config, dtype=dtype)
        self._has_pairs = has_pairs
        if not has_pairs:
            self.loss_names = ("masked_lm_loss",)
            self.metric_names = ("masked_lm_accuracy", "masked_lm_loss", "loss")

    def loss_weights(self, batch):
        weights = {"masked_lm": tf.reduce_sum(batch["masked_lm_weights"])}
        if self._has_pairs:
            labels = batch["next_sentence_labels"]
            weights["next_sentence"] = tf.cast(tf.shape(labels)[0], tf.float32)
        return weights

    def losses(self, outputs, batch, weights):
        masked_lm = self._masked_lm_losses(outputs, batch)
        # The release's 1e-5 keeps the loss of a batch without predictions finite.
        losses = {"masked_lm_loss": tf.reduce_sum(masked_lm) / (weights["masked_lm"] + 1e-5)}
        if self._has_pairs:
            next_sentence = self._next_sentence_losses(outputs, batch)
            losses["next_sentence_loss"] = tf.reduce_sum(next_sentence) / weights["next_sentence"]
        return losses

    def _masked_lm_losses(self, outputs, batch):
        masked_lm = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["masked_lm_ids"], logits=outputs["masked_lm_logits"]
        )
        return masked_lm * batch["masked_lm_weights"]

    def _next_sentence_losses(self, outputs, batch):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(batch["next_sentence_labels"], -1),
            logits=outputs["next_sentence_logits"],
        )

    def predictions(self, outputs, batch):
        masked_lm = self._masked_lm_losses(outputs, batch)
        best_words = tf.argmax(outputs["masked_lm_logits"], -1, output_type=tf.int32)
        is_correct = tf.cast(best_words == batch["masked_lm_ids"], tf.float32)
        predictions = {
            "masked_lm_loss": tf.reduce_sum(masked_lm, -1),
            "masked_lm_correct": tf.reduce_sum(is_correct * batch["masked_lm_weights"], -1),
            "masked_lm_weight": tf.reduce_sum(batch["masked_lm_weights"], -1),
        }
        if self._has_pairs:
            best_label = tf.argmax(outputs["next_sentence_logits"], -1, output_type=tf.int32)
            labels = tf.squeeze(batch["next_sentence_labels"], -1)
            predictions["next_sentence_loss"] = self._next_sentence_losses(outputs, batch)
            predictions["next_sentence_correct"] = tf.cast(best_label == labels, tf.float32)
        return predictions

    def metrics(self, predictions):
        sums = {name: np.sum(value, dtype="float64") for name, value in predictions.items()}
        words = sums["masked_lm_weight"] + 1e-5
        results = {
            "masked_lm_accuracy": sums["masked_lm_correct"] / words,
            "masked_lm_loss": sums["masked_lm_loss"] / words,
        }
        if self._has_pairs:
            examples = len(predictions["next_sentence_loss"])
            results["next_sentence_accuracy"] = sums["next_sentence_correct"] / examples
            results["next_sentence_loss"] = sums["next_sentence_loss"] / examples
        results["loss"] = sum(results[name] for name in self.loss_names)
        return results
