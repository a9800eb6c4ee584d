"""Classification, regression and multi-label classification: losses, answers and metrics."""

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.checkpoints import names
from bert_tf.data import records
from bert_tf.modeling import BertClassifier
from bert_tf.training import metrics
from bert_tf.training.task import Task

# Above this standard deviation of the scores, a regression learns slowly.
_MAX_DEVIATION = 10.0


class ClassificationTask(Task):
    """Trains a `BertClassifier` to choose one of L labels."""

    task_type = "classification"
    schema = records.CLASSIFICATION
    # The label in `schema`.
    label_name = "label_ids"
    # The main entry of `answers`.
    answer_name = "probabilities"
    loss_names = ("classification_loss",)
    metrics_used: tuple[str, ...] = ("accuracy",)
    # Additional metrics for custom data; published tasks define their own.
    custom_data_metrics: tuple[str, ...] = ("f1_macro", "f1_weighted", "precision_macro",
                                         "recall_macro")  # fmt: skip
    # Default for subclasses whose constructor lacks this argument, as in `MultipleChoiceTask`.
    class_weights = None

    def __init__(
        self, config, num_labels, dtype=None, more_metrics=(), class_weights=None, **options
    ):
        """Make the model with `options` of `BertClassifier`.

        `more_metrics` are names of `metrics.METRICS`.
        """
        self.model = BertClassifier(config, num_labels, dtype, **options)
        self.metric_names = self.metric_names_with(more_metrics)
        self.metrics_used = (*self.metrics_used, *more_metrics)
        self.class_weights = class_weights

    @classmethod
    def metric_names_with(cls, more_metrics=()):
        metric_names = (*cls.metrics_used, *more_metrics)
        return (*(f"eval_{name}" for name in metric_names), "eval_loss", "loss")

    @staticmethod
    def encode(label, labels):
        """Convert a label, None in test sets, to its value in a record; ValueError if unknown."""
        return 0 if label is None else labels.index(label)

    @staticmethod
    def answers(logits):
        """Return a dict of answers for float32 logits (B, L)."""
        return {"probabilities": tf.nn.softmax(logits)}

    @staticmethod
    def decide(predictions):
        """Return the predicted label ids (N,) for a dict of arrays of `answers`."""
        return predictions["probabilities"].argmax(-1)

    def losses(self, outputs, batch, weights):
        losses = self._example_losses(outputs, batch, self.class_weights)
        return {self.loss_names[0]: tf.reduce_sum(losses) / weights["examples"]}

    def _example_losses(self, outputs, batch, class_weights=None):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["label_ids"], logits=outputs["logits"]
        )
        if class_weights is None:
            return losses
        return losses * tf.gather(tf.constant(class_weights, tf.float32), batch["label_ids"])

    def predictions(self, outputs, batch):
        return {
            "logits": outputs["logits"],
            **self.answers(outputs["logits"]),
            self.label_name: batch[self.label_name],
            "loss": self._example_losses(outputs, batch),
        }

    def labels_and_predicted(self, predictions):
        return predictions[self.label_name], self.decide(predictions)

    def metrics(self, predictions):
        labels, predicted = self.labels_and_predicted(predictions)
        loss = predictions["loss"].mean(dtype="float64")
        results = {
            f"eval_{name}": metrics.METRICS[name](labels, predicted) for name in self.metrics_used
        }
        return {**results, "eval_loss": loss, "loss": loss}


class RegressionTask(ClassificationTask):
    """Trains a `BertClassifier` with one logit to predict a score, by mean squared error."""

    task_type = "regression"
    schema = records.REGRESSION
    label_name = "label_value"
    answer_name = "score"
    loss_names = ("regression_loss",)
    metrics_used = ("pearson", "spearman")
    custom_data_metrics = ()

    @staticmethod
    def encode(label, labels):
        return np.float32(0.0 if label is None else label)

    @staticmethod
    def answers(logits):
        return {"score": logits[:, 0]}

    @staticmethod
    def decide(predictions):
        return predictions["score"]

    def _example_losses(self, outputs, batch, class_weights=None):
        return tf.math.squared_difference(outputs["logits"][:, 0], batch["label_value"])


class MultiLabelTask(ClassificationTask):
    """Trains a `BertClassifier` to predict any number of L labels, by sigmoid cross entropy."""

    task_type = "multi_label"
    schema = records.MULTI_LABEL
    label_name = "label_values"
    loss_names = ("multi_label_loss",)
    metrics_used = ("accuracy", "f1_micro", "f1_macro")
    custom_data_metrics = ("f1_weighted", "precision_micro", "precision_macro", "recall_micro",
                        "recall_macro")  # fmt: skip

    @staticmethod
    def encode(label, labels):
        values = np.zeros(len(labels), "float32")
        values[[labels.index(name) for name in label or ()]] = 1.0
        return values

    @staticmethod
    def answers(logits):
        return {"probabilities": tf.sigmoid(logits)}

    @staticmethod
    def decide(predictions):
        return (predictions["probabilities"] >= 0.5).astype("float32")

    def _example_losses(self, outputs, batch, class_weights=None):
        # A class weight applies to the examples that have the label.
        losses = tf.nn.weighted_cross_entropy_with_logits(
            labels=batch["label_values"],
            logits=outputs["logits"],
            pos_weight=1.0 if class_weights is None else tf.constant(class_weights, tf.float32),
        )
        return tf.reduce_mean(losses, -1)


TASK_CLASSES = {
    task_class.task_type: task_class
    for task_class in (ClassificationTask, RegressionTask, MultiLabelTask)
}


def start_at_mean(model, scores):
    """Set the bias of a regression head to the mean of the training scores."""
    scores = np.array(scores, "float64")
    names.weights(model)["output_bias"].assign([scores.mean()])
    if scores.std() > _MAX_DEVIATION:
        console.warning(
            "the training scores have a standard deviation of %.4g; a model learns faster if they "
            "are scaled to about 1",
            scores.std(),
        )
