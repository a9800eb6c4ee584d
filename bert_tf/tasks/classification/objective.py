"""Classification, regression and multi-label classification: losses, predictions and metrics."""

from keras import ops

from bert_tf.serving.answers import all_probable, most_probable
from bert_tf.training import results
from bert_tf.training.objective import Objective, argmax


class ClassificationObjective(Objective):
    """Trains a `BertClassifier` to choose one of L labels.

    Instead of `label_ids`, a batch may have distributions `label_values` (B, L).
    """

    task_type = "classification"
    activation = "softmax"
    # The label in a batch.
    label_name = "label_ids"
    # The main entry of `answers`.
    answer_name = "probabilities"
    loss_names = ("classification_loss",)
    fit_metric_names = ("accuracy",)
    metrics_used: tuple[str, ...] = ("accuracy",)

    def __init__(self, model, more_metrics=(), class_weights=None):
        """Create the objective of a model; `more_metrics` are names of `results.METRICS`."""
        self.model, self.class_weights = model, class_weights
        self.metrics_used = (*self.metrics_used, *more_metrics)
        self.metric_names = (*(f"eval_{name}" for name in self.metrics_used), "eval_loss", "loss")
        self.key = {"class_weights": class_weights}

    @classmethod
    def answers(cls, logits, nn=ops):
        """Return a dict of answers for float32 logits (B, L); `nn` is tf.nn in a served graph."""
        return {"probabilities": getattr(nn, cls.activation)(logits)}

    # A function from a dict of arrays (..., L) of `answers` to the predicted label ids (...).
    decide = staticmethod(most_probable)

    def losses(self, outputs, batch, denominators, training=True):
        losses = self.example_losses(outputs, batch, training)
        losses = ops.sum(losses * self.example_weights(batch))
        return {self.loss_names[0]: losses / denominators["examples"]}

    def example_losses(self, outputs, batch, training=False):
        """Return the loss of each example (B,), in training with the weights of labels."""
        is_soft = "label_values" in batch
        loss = ops.categorical_crossentropy if is_soft else ops.sparse_categorical_crossentropy
        labels = batch["label_values" if is_soft else "label_ids"]
        losses = loss(labels, outputs["logits"], from_logits=True)
        return losses * self.class_factors(batch) if training else losses

    def _labels(self, batch):
        """Return the labels, as indices where the batch has distributions."""
        return batch[self.label_name] if self.label_name in batch else argmax(batch["label_values"])

    def fit_metrics(self, outputs, batch):
        return {"accuracy": (self._is_correct(outputs["logits"], self._labels(batch)),
                             self._is_real(batch))}  # fmt: skip

    @staticmethod
    def _is_correct(logits, labels):
        return ops.equal(argmax(logits), ops.cast(labels, "int32"))

    def keras_targets(self, batch, denominators):
        name = self.label_name if self.label_name in batch else "label_values"
        return batch[name], self.example_weights(batch) / denominators["examples"]

    def predictions(self, outputs, batch):
        return {
            "logits": outputs["logits"],
            **self.answers(outputs["logits"]),
            self.label_name: self._labels(batch),
            "loss": self.example_losses(outputs, batch) * batch.get("sample_weight", 1.0),
        }

    def labels_and_predicted(self, predictions):
        return predictions[self.label_name], self.decide(predictions)

    def metrics(self, predictions):
        labels, predicted = self.labels_and_predicted(predictions)
        loss = predictions["loss"].mean(dtype="float64")
        scores = [results.METRICS[name](labels, predicted) for name in self.metrics_used]
        return dict(zip(self.metric_names, (*scores, loss, loss), strict=True))


class RegressionObjective(ClassificationObjective):
    """Trains a `BertClassifier` with one logit to predict a score, by mean squared error."""

    task_type = "regression"
    activation = "linear"
    label_name = "label_value"
    answer_name = "score"
    loss_names = ("regression_loss",)
    fit_metric_names = ("mean_absolute_error",)
    metrics_used = ("pearson", "spearman", "mean_absolute_error")

    @classmethod
    def answers(cls, logits, nn=ops):
        return {"score": logits[:, 0]}

    @staticmethod
    def decide(predictions):
        return predictions["score"]

    def example_losses(self, outputs, batch, training=False):
        return ops.square(outputs["logits"][:, 0] - batch["label_value"])

    def fit_metrics(self, outputs, batch):
        errors = ops.abs(outputs["logits"][:, 0] - batch["label_value"])
        return {"mean_absolute_error": (errors, self._is_real(batch))}


class MultiLabelObjective(ClassificationObjective):
    """Trains a `BertClassifier` to predict any number of L labels, by sigmoid cross entropy."""

    task_type = "multi_label"
    activation = "sigmoid"
    label_name = "label_values"
    decide = staticmethod(all_probable)
    loss_names = ("multi_label_loss",)
    metrics_used = ("accuracy", "f1_micro", "f1_macro")

    def class_factors(self, batch):
        return 1.0  # `example_losses` applies the weights to each label

    def example_losses(self, outputs, batch, training=False):
        logits, labels = outputs["logits"], batch["label_values"]
        # A class weight applies to the examples that have the label. The term of a label is
        # `tf.nn.weighted_cross_entropy_with_logits`.
        is_weighted = training and self.class_weights is not None
        weights = ops.convert_to_tensor(self.class_weights if is_weighted else 1.0, "float32")
        positive = ops.log1p(ops.exp(-ops.abs(logits))) + ops.relu(-logits)
        return ops.mean((1.0 - labels) * logits + (1.0 + (weights - 1.0) * labels) * positive, -1)

    @staticmethod
    def _is_correct(logits, labels):
        return ops.all(ops.equal(logits >= 0.0, labels > 0.5), -1)


OBJECTIVES = {
    x.task_type: x for x in (ClassificationObjective, RegressionObjective, MultiLabelObjective)
}
