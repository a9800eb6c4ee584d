"""Masked LM and next sentence prediction (BERT paper, section 3.1)."""

import numpy as np
import tensorflow as tf

from bert_tf.modeling import BertPretrainer
from bert_tf.tasks.base import Task


class PretrainingTask(Task):
    """Trains a `BertPretrainer` on pre-training records; P is the number of prediction slots."""

    loss_names = ("masked_lm_loss", "next_sentence_loss")
    metric_names = (
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
        "loss",
    )

    def __init__(self, config, dtype=None):
        self.model = BertPretrainer(config, dtype=dtype)

    def loss_weights(self, batch):
        return {
            "masked_lm": tf.reduce_sum(batch["masked_lm_weights"]),
            "next_sentence": tf.cast(tf.shape(batch["next_sentence_labels"])[0], tf.float32),
        }

    def losses(self, outputs, batch, weights):
        masked_lm, next_sentence = self._example_losses(outputs, batch)
        return {
            # The release adds the 1e-5 too; it keeps a batch without predictions finite.
            "masked_lm_loss": tf.reduce_sum(masked_lm) / (weights["masked_lm"] + 1e-5),
            "next_sentence_loss": tf.reduce_sum(next_sentence) / weights["next_sentence"],
        }

    def _example_losses(self, outputs, batch):
        """Cross entropy of each slot (B, P), 0 where it is padding, and of each pair (B,)."""
        masked_lm = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["masked_lm_ids"], logits=outputs["masked_lm_logits"]
        )
        next_sentence = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(batch["next_sentence_labels"], -1),
            logits=outputs["next_sentence_logits"],
        )
        return masked_lm * batch["masked_lm_weights"], next_sentence

    def predictions(self, outputs, batch):
        masked_lm, next_sentence = self._example_losses(outputs, batch)
        best_words = tf.argmax(outputs["masked_lm_logits"], -1, output_type=tf.int32)
        right_words = tf.cast(best_words == batch["masked_lm_ids"], tf.float32)
        best_label = tf.argmax(outputs["next_sentence_logits"], -1, output_type=tf.int32)
        labels = tf.squeeze(batch["next_sentence_labels"], -1)
        return {
            "masked_lm_loss": tf.reduce_sum(masked_lm, -1),
            "masked_lm_right": tf.reduce_sum(right_words * batch["masked_lm_weights"], -1),
            "masked_lm_weight": tf.reduce_sum(batch["masked_lm_weights"], -1),
            "next_sentence_loss": next_sentence,
            "next_sentence_right": tf.cast(best_label == labels, tf.float32),
        }

    def metrics(self, predictions):
        sums = {name: np.sum(value, dtype="float64") for name, value in predictions.items()}
        examples = len(predictions["next_sentence_loss"])
        words = sums["masked_lm_weight"] + 1e-5
        results = {
            "masked_lm_accuracy": sums["masked_lm_right"] / words,
            "masked_lm_loss": sums["masked_lm_loss"] / words,
            "next_sentence_accuracy": sums["next_sentence_right"] / examples,
            "next_sentence_loss": sums["next_sentence_loss"] / examples,
        }
        results["loss"] = results["masked_lm_loss"] + results["next_sentence_loss"]
        return results
