"""The kinds of task that a `BertClassifier` learns: one of several labels, any of them, a score."""

import numpy as np
import tensorflow as tf

from bert_tf.data import records
from bert_tf.tasks.classification import ClassificationTask


class RegressionTask(ClassificationTask):
    """A score for each text: one logit, mean squared error."""

    task_type = "regression"
    schema = records.REGRESSION
    label_name = "label_value"
    answer_name = "score"
    loss_names = ("regression_loss",)
    metrics_used = ("pearson", "spearman")

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

    def _teacher_losses(self, outputs, batch):
        return tf.math.squared_difference(outputs["logits"], batch["teacher_logits"])[:, 0]


class MultiLabelTask(ClassificationTask):
    """Any of L labels, or none: a sigmoid for each, and the mean of their cross entropies."""

    task_type = "multi_label"
    schema = records.MULTI_LABEL
    label_name = "label_values"
    loss_names = ("multi_label_loss",)
    metrics_used = ("accuracy", "f1_micro", "f1_macro")

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
        # The weight of a label is that of the examples that have it.
        losses = tf.nn.weighted_cross_entropy_with_logits(
            labels=batch["label_values"],
            logits=outputs["logits"],
            pos_weight=1.0 if class_weights is None else tf.constant(class_weights, tf.float32),
        )
        return tf.reduce_mean(losses, -1)

    def _teacher_losses(self, outputs, batch):
        temperature = self.teaching.temperature
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.sigmoid(batch["teacher_logits"] / temperature),
            logits=outputs["logits"] / temperature,
        )
        return temperature**2 * tf.reduce_mean(losses, -1)


TASK_CLASSES = {
    task.task_type: task for task in (ClassificationTask, RegressionTask, MultiLabelTask)
}
