"""Masked LM and next sentence (or sentence order) prediction (BERT paper, section 3.1)."""

import numpy as np
from keras import ops

from bert_tf.modeling import BertPretrainer
from bert_tf.training.task import Task, best


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

    fit_metric_names = ("masked_lm_accuracy", "next_sentence_accuracy")

    def __init__(self, config, dtype=None, has_pairs=True, model=None):
        self.model = model or BertPretrainer(config, dtype=dtype)
        self._has_pairs = has_pairs
        if not has_pairs:
            self.loss_names = ("masked_lm_loss",)
            self.metric_names = ("masked_lm_accuracy", "masked_lm_loss", "loss")
            self.fit_metric_names = ("masked_lm_accuracy",)

    def loss_weights(self, batch):
        weights = {"masked_lm": ops.sum(self._masks(batch))}
        if self._has_pairs:
            weights["next_sentence"] = ops.sum(self._is_real(batch))
        return weights

    def _masks(self, batch):
        return batch["masked_lm_weights"] * self._is_real(batch)[:, None]

    def losses(self, outputs, batch, weights):
        factors = self.example_weights(batch)
        masked_lm = self._masked_lm_losses(outputs, batch) * factors[:, None]
        # The release's 1e-5 keeps the loss of a batch without predictions finite.
        losses = {"masked_lm_loss": ops.sum(masked_lm) / (weights["masked_lm"] + 1e-5)}
        if self._has_pairs:
            next_sentence = ops.sum(self._next_sentence_losses(outputs, batch) * factors)
            losses["next_sentence_loss"] = next_sentence / weights["next_sentence"]
        return losses

    def _masked_lm_losses(self, outputs, batch):
        masked_lm = ops.sparse_categorical_crossentropy(
            batch["masked_lm_ids"], outputs["masked_lm_logits"], from_logits=True
        )
        return masked_lm * batch["masked_lm_weights"]

    def _next_sentence_losses(self, outputs, batch):
        labels = ops.squeeze(batch["next_sentence_labels"], -1)
        return ops.sparse_categorical_crossentropy(
            labels, outputs["next_sentence_logits"], from_logits=True
        )

    def _are_correct(self, outputs, batch):
        """Return 1 for each correct word, float32 (B, P), and next sentence, float32 (B,)."""
        labels = [batch["masked_lm_ids"]]
        logits = [outputs["masked_lm_logits"]]
        if self._has_pairs:
            labels.append(ops.squeeze(batch["next_sentence_labels"], -1))
            logits.append(outputs["next_sentence_logits"])
        return [
            ops.cast(ops.equal(best(x), ops.cast(y, "int32")), "float32")
            for x, y in zip(logits, labels, strict=True)
        ]

    def fit_metrics(self, outputs, batch):
        weights = (self._masks(batch), self._is_real(batch))
        values = zip(self._are_correct(outputs, batch), weights, strict=False)
        return dict(zip(self.fit_metric_names, values, strict=True))

    def keras_targets(self, batch, weights):
        factors = self.example_weights(batch)
        masked_lm = batch["masked_lm_weights"] * factors[:, None] / (weights["masked_lm"] + 1e-5)
        next_sentence, labels = 0.0 * factors, ops.zeros_like(batch["masked_lm_ids"][:, 0])
        if self._has_pairs:
            labels = ops.squeeze(batch["next_sentence_labels"], -1)
            next_sentence = factors / weights["next_sentence"]
        return (
            {"masked_lm_logits": batch["masked_lm_ids"], "next_sentence_logits": labels},
            {"masked_lm_logits": masked_lm, "next_sentence_logits": next_sentence},
        )

    def predictions(self, outputs, batch):
        masked_lm = self._masked_lm_losses(outputs, batch)
        is_correct, *is_next_correct = self._are_correct(outputs, batch)
        predictions = {
            "masked_lm_loss": ops.sum(masked_lm, -1),
            "masked_lm_correct": ops.sum(is_correct * batch["masked_lm_weights"], -1),
            "masked_lm_weight": ops.sum(batch["masked_lm_weights"], -1),
        }
        if self._has_pairs:
            predictions["next_sentence_loss"] = self._next_sentence_losses(outputs, batch)
            (predictions["next_sentence_correct"],) = is_next_correct
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
