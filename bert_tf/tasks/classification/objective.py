"""Classification, regression and multi-label classification: losses, metrics and runs."""

import itertools

import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.checkpoints import names
from bert_tf.configs.task import base_split
from bert_tf.data.features import digest
from bert_tf.data.labels import Labels
from bert_tf.errors import UserError
from bert_tf.modeling import BertClassifier
from bert_tf.tasks.classification import source as reading
from bert_tf.tasks.classification.examples import make_features, warn_of_num_texts
from bert_tf.tasks.classification.options import ClassificationConfig, DevSplit
from bert_tf.training import results
from bert_tf.training.objective import Objective, TaskData, argmax

# Above this standard deviation of the scores, a regression learns slowly.
_MAX_DEVIATION = 10.0


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
        """Create the task of a model; `more_metrics` are names of `results.METRICS`."""
        self.model, self.class_weights = model, class_weights
        self.metrics_used = (*self.metrics_used, *more_metrics)
        self.metric_names = (*(f"eval_{name}" for name in self.metrics_used), "eval_loss", "loss")
        self.key = {"class_weights": class_weights}

    @classmethod
    def answers(cls, logits, nn=ops):
        """Return a dict of answers for float32 logits (B, L); `nn` is tf.nn in a served graph."""
        return {"probabilities": getattr(nn, cls.activation)(logits)}

    @staticmethod
    def decide(predictions):
        """Return the predicted label ids (...) for a dict of arrays (..., L) of `answers`."""
        return predictions["probabilities"].argmax(-1)

    def losses(self, outputs, batch, weights, training=True):
        losses = self._example_losses(outputs, batch, training)
        losses = ops.sum(losses * self.example_weights(batch))
        return {self.loss_names[0]: losses / weights["examples"]}

    def _example_losses(self, outputs, batch, training=False):
        logits, is_soft = outputs["logits"], "label_values" in batch
        loss = ops.categorical_crossentropy if is_soft else ops.sparse_categorical_crossentropy
        labels = batch["label_values" if is_soft else "label_ids"]
        losses = loss(labels, logits, from_logits=True)
        return losses * self.class_factors(batch) if training else losses

    def _labels(self, batch):
        """Return the labels, as indices where the batch has distributions."""
        if self.label_name in batch:
            return batch[self.label_name]
        return argmax(batch["label_values"])

    def fit_metrics(self, outputs, batch):
        return {"accuracy": (self._is_correct(outputs["logits"], self._labels(batch)),
                             self._is_real(batch))}  # fmt: skip

    @staticmethod
    def _is_correct(logits, labels):
        return ops.equal(argmax(logits), ops.cast(labels, "int32"))

    def keras_targets(self, batch, weights):
        name = self.label_name if self.label_name in batch else "label_values"
        return batch[name], self.example_weights(batch) / weights["examples"]

    def predictions(self, outputs, batch):
        return {
            "logits": outputs["logits"],
            **self.answers(outputs["logits"]),
            self.label_name: self._labels(batch),
            "loss": self._example_losses(outputs, batch) * batch.get("sample_weight", 1.0),
        }

    def labels_and_predicted(self, predictions):
        return predictions[self.label_name], self.decide(predictions)

    def metrics(self, predictions):
        labels, predicted = self.labels_and_predicted(predictions)
        loss = predictions["loss"].mean(dtype="float64")
        scores = {
            f"eval_{name}": results.METRICS[name](labels, predicted) for name in self.metrics_used
        }
        return {**scores, "eval_loss": loss, "loss": loss}


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

    def _example_losses(self, outputs, batch, training=False):
        return ops.square(outputs["logits"][:, 0] - batch["label_value"])

    def fit_metrics(self, outputs, batch):
        errors = ops.abs(outputs["logits"][:, 0] - batch["label_value"])
        return {"mean_absolute_error": (errors, self._is_real(batch))}


class MultiLabelObjective(ClassificationObjective):
    """Trains a `BertClassifier` to predict any number of L labels, by sigmoid cross entropy."""

    task_type = "multi_label"
    activation = "sigmoid"
    label_name = "label_values"
    loss_names = ("multi_label_loss",)
    metrics_used = ("accuracy", "f1_micro", "f1_macro")

    @staticmethod
    def decide(predictions):
        return (predictions["probabilities"] >= 0.5).astype("float32")

    def class_factors(self, batch):
        return 1.0  # `_example_losses` applies the weights to each label

    def _example_losses(self, outputs, batch, training=False):
        logits, labels = outputs["logits"], batch["label_values"]
        # A class weight applies to the examples that have the label. The terms are those of
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


class ClassificationData(TaskData):
    """Holds `examples`, a dict from split to list of `Example`, and the `glue.DatasetSpec`.

    `class_weights` are those of `Labels.weights`, and `argument` is their name in messages.
    """

    def __init__(
        self, dataset, examples, config, class_weights=None, data_files=(), argument="class_weights"
    ):
        super().__init__(examples, config, data_files)
        self.dataset, self.task_class = dataset, OBJECTIVES[config.task_type]
        self._class_weights = None
        if class_weights is not None and "train" in examples:
            labels, train = Labels(config.labels, config.task_type), examples["train"]
            train = [example.label for example in train]
            self._class_weights = labels.weights(class_weights, train, argument)

    def features(self, split, tokenizer):
        return make_features(self.examples[split], tokenizer, self.config)

    def start_training(self, model):
        """Set the bias of a new regression head to the mean of the training scores."""
        is_score = self.config.task_type == "regression"
        bias = is_score and names.weights(model)["output_bias"]
        if not is_score or bias.numpy() != 0:  # a trained head
            return
        scores = np.array([example.label for example in self.examples["train"]], "float64")
        bias.assign([scores.mean()])
        if scores.std() > _MAX_DEVIATION:
            console.warning(
                "the training scores have a standard deviation of %.4g; a model learns faster if "
                "they are scaled to about 1",
                scores.std(),
            )

    def make_objective(self, model, pad_to_max_length=False):
        return self.task_class(model, self.dataset.metrics, self._class_weights)

    def report(self, objective, predictions):
        return results.report(*objective.labels_and_predicted(predictions), self.config.labels)

    def answers(self, objective, predictions, split):
        labels, separator = self.config.labels, self.config.label_separator
        predicted = results.label_texts(objective.decide(predictions), labels, separator)
        return predicted, labels, predictions[objective.answer_name]


def read(options, pretrained, splits, stored=None, config_class=ClassificationConfig):
    """Read the data of a run; see `TaskSpec.read`. `config_class` may be a subclass."""
    options, restored = reading.with_restored_columns(options, stored)
    source = reading.make_source(options, stored, restored)
    dataset = source.dataset
    dev_split = _dev_split(options, stored)
    examples, labels, numeric_features = reading.read_splits(
        source, splits, stored, options.skip_bad_rows, dev_split
    )
    if dev_split and "dev" in examples:
        dev_split = _with_digest(dev_split, examples["dev"])
    examples = {split: x for split, x in examples.items() if base_split(split) in splits}
    has_pairs = any(example.text_b is not None for example in itertools.chain(*examples.values()))
    config = config_class.of_model(
        options,
        pretrained,
        labels=labels,
        task_type=dataset.task_type,
        numeric_features=numeric_features,
        numeric_as=dataset.layout.numeric_as if numeric_features else "vector",
        num_texts=2 if has_pairs else 1,
        columns=stored.columns if stored else reading.columns_to_save(options, source),
        dev_split=stored.dev_split if stored else dev_split,
    )
    warn_of_num_texts("the data", config.num_texts, (stored or config).num_texts)
    return ClassificationData(dataset, examples, config, config.class_weights or None, source.files)


def make_model(config, dtype=None):
    return BertClassifier(
        config.bert_config, config.num_outputs, dtype,
        num_numeric_features=len(config.numeric_inputs),
        window_pooling=config.windows and config.window_pooling,
    )  # fmt: skip


def _dev_split(options, stored):
    """Return the `DevSplit` of the trained model or, for a new model, of the options."""
    fraction, trained = options.dev_fraction, stored.dev_split if stored else None
    if stored and fraction is not None and (trained is None or fraction != trained.fraction):
        raise UserError(
            f"`dev_fraction={fraction:g}`: the model was trained with "
            f"{trained.fraction if trained else 'all rows'}, so it would be evaluated on training "
            "rows; use the original value or a `dev_file`"
        )
    if stored:
        return None if options.dev_file else trained
    return None if fraction is None else DevSplit(fraction, options.dev_seed)


def _with_digest(dev_split, examples):
    """Return the `DevSplit` with the digest of its rows; UserError if training held out others."""
    value = digest([e.text_a, e.text_b, e.label] for e in examples)
    if dev_split.digest not in ("", value):
        raise UserError(
            "`dev_fraction`: the held-out rows are not those of the training run, because the file "
            "or the version of scikit-learn has changed; restore it, or use a `dev_file`"
        )
    return dev_split._replace(digest=value)
