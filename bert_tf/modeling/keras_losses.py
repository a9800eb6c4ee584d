"""Losses and metrics of Keras for a model that returns logits, see `for_logits`."""

import functools
import inspect

import keras
from keras import ops

# Attributes of metrics that take logits.
_LOGITS = {"from_logits": True, "_from_logits": True, "threshold": 0, "thresholds": [0]}
# Starts of the names of losses and metrics of ids, and of scores.
_OF_IDS = ("sparse", "categoricalgeneralized")
_ERRORS = ("mean", "rootmean", "huber", "logcosh", "cosine", "r2", "pearson", "concordance")


def _function(given):
    """Return the function that a loss or metric calls, or itself."""
    return getattr(given, "_fn", getattr(given, "fn", given))


def _title(given):
    given = _function(given)
    return getattr(given, "__name__", type(given).__name__).lower().replace("_", "")


def _converted(wrapped, targets, logits, activation):
    """Return ids as rows of 0 and 1, and logits as probabilities, for a loss or metric."""
    rank, is_single = len(logits.shape), logits.shape[-1] == 1
    if len(targets.shape) == rank and targets.shape[-1] == 1 and not is_single:
        targets = ops.squeeze(targets, -1)
    if len(targets.shape) < rank and not is_single and not _title(wrapped).startswith(_OF_IDS):
        targets = ops.one_hot(ops.cast(targets, "int32"), ops.shape(logits)[-1])
    # A copy, because Keras finds the logits of a softmax, and takes them for those of a sigmoid.
    return targets, ops.copy(keras.activations.get(activation)(logits))


@keras.saving.register_keras_serializable("bert_tf")
class RowLoss(keras.losses.Loss):
    """Passes rows of 0 and 1, and logits through an activation, to a loss of Keras."""

    def __init__(self, loss, activation, **options):
        super().__init__(**options)
        self.loss, self.activation = keras.losses.get(loss), activation

    def call(self, y_true, y_pred):
        function = getattr(self.loss, "call", self.loss)
        return function(*_converted(self.loss, y_true, y_pred, self.activation))

    def get_config(self):
        loss = keras.losses.serialize(self.loss)
        return {**super().get_config(), "loss": loss, "activation": self.activation}


@keras.saving.register_keras_serializable("bert_tf")
class RowMetric(keras.metrics.Metric):
    """Passes to a metric of Keras what `RowLoss` passes to a loss."""

    def __init__(self, metric, activation, **options):
        super().__init__(**options)
        metric = keras.metrics.get(metric)
        is_metric = isinstance(metric, keras.metrics.Metric)
        self.metric = metric if is_metric else keras.metrics.MeanMetricWrapper(metric)
        self.activation = activation

    def update_state(self, y_true, y_pred, sample_weight=None):
        converted = _converted(self.metric, y_true, y_pred, self.activation)
        self.metric.update_state(*converted, sample_weight)

    def result(self):
        return self.metric.result()

    def get_config(self):
        metric = keras.metrics.serialize(self.metric)
        return {**super().get_config(), "metric": metric, "activation": self.activation}


def _convert(activation, is_score, is_loss, given):
    if given in ("accuracy", "acc") and activation == "softmax":
        return given  # Keras knows whether targets are ids
    module = keras.losses if is_loss else keras.metrics
    found = module.get("binary_accuracy" if given in ("accuracy", "acc") else given)
    title, name = _title(found), getattr(found, "name", getattr(found, "__name__", None))
    modules = (getattr(x, "__module__", "") for x in (found, _function(found)))
    is_keras = all(x.startswith("keras.") for x in modules)
    if not is_keras or (is_score and title.startswith(_ERRORS)):
        return given
    if inspect.isfunction(found):
        found = getattr(module, found.__name__.title().replace("_", ""), lambda: found)()
    if is_loss:
        config = found.get_config() if isinstance(found, keras.losses.Loss) else {}
        if "from_logits" in config:  # more precise than probabilities
            found, activation = type(found).from_config({**config, "from_logits": True}), "linear"
        reduction = config.get("reduction", "sum_over_batch_size")
        return RowLoss(found, activation, name=name, reduction=reduction)
    if isinstance(given, str):
        name = given
        if activation == "sigmoid" and getattr(found, "beta", None):
            found.threshold = 0.5  # by default, an F1 score counts only the best label
    if any(getattr(found, x, None) == value for x, value in _LOGITS.items()):
        activation = "linear"
    return RowMetric(found, activation, name=name)


def for_logits(model, **arguments):
    """Return the loss and the metrics of `compile` for the labels and logits of a `TaskModel`.

    Those of Keras get what they take: ids or rows of 0 and 1, logits or probabilities. Others are
    unchanged, and so are all if the model has no logits or its `logits_activation` is "linear".
    """
    outputs = getattr(model, "output", None)
    outputs = outputs if isinstance(outputs, dict) else {}
    sizes = {x.shape[-1] for name, x in outputs.items() if name.endswith("logits")}
    if not sizes or model.logits_activation == "linear":
        return arguments
    losses = map(keras.losses.get, keras.tree.flatten(arguments["loss"]))
    is_binary = any(_title(x).startswith("binary") for x in losses)
    activation = "sigmoid" if is_binary else model.logits_activation
    # One output is the logit of a class or, for errors such as the mean squared one, a score.
    is_score = sizes == {1} and not activation
    activation = activation or ("sigmoid" if is_score else "softmax")
    return {
        name: keras.tree.map_structure(
            functools.partial(_convert, activation, is_score, name == "loss"), values
        )
        for name, values in arguments.items()
    }
