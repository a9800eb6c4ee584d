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

    def __init__(self, config, num_labels=1, dtype=None, more_metrics=()):
        super().__init__(config, num_labels, dtype, more_metrics)

    @staticmethod
    def encode(label, labels):
        return np.float32(0.0 if label is None else label)

    @staticmethod
    def answers(logits):
        return {"score": logits[:, 0]}

    @staticmethod
    def decide(predictions):
        return predictions["score"]

    def _example_losses(self, outputs, batch):
        return tf.math.squared_difference(outputs["logits"][:, 0], batch["label_value"])


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

    def _example_losses(self, outputs, batch):
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=batch["label_values"], logits=outputs["logits"]
        )
        return tf.reduce_mean(losses, -1)


KINDS = {task.task_type: task for task in (ClassificationTask, RegressionTask, MultiLabelTask)}
