"""Losses and metrics of Keras for a model that returns logits, see `for_logits`."""

import functools
import inspect

import keras
from keras import ops

# Names for which Keras chooses by the shapes of targets and outputs.
_SHORT = {"acc": "accuracy", "ce": "crossentropy"}
_SHORT |= {name: name for name in _SHORT.values()}
# Attributes of metrics that take logits.
_LOGITS = {"from_logits": True, "_from_logits": True, "threshold": 0, "thresholds": [0]}
# Starts of the names of losses and metrics of ids.
_OF_IDS = ("sparse", "categoricalgeneralized")


def _function(given):
    """Return the function that a loss or metric calls, or itself."""
    return getattr(given, "_fn", getattr(given, "fn", given))


def _title(given):
    given = _function(given)
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    return name.lower().replace("_", "")


def _converted(wrapped, targets, logits, activation):
    """Return ids as rows of 0 and 1, and logits as probabilities, for a loss or metric."""
    rank, is_single = len(logits.shape), logits.shape[-1] == 1
    if len(targets.shape) == rank and targets.shape[-1] == 1 and not is_single:
        targets = ops.squeeze(targets, -1)
    if len(targets.shape) < rank and not is_single and not _title(wrapped).startswith(_OF_IDS):
        targets = ops.one_hot(ops.cast(targets, "int32"), ops.shape(logits)[-1])
    # A copy, because Keras traces a softmax back to its logits and treats them as a sigmoid's.
    return targets, ops.copy(keras.activations.get(activation)(logits))


class LogitsLoss(keras.losses.Loss):
    """A loss of Keras that gets rows of 0 and 1, and logits after an activation."""

    def __init__(self, loss, activation, **options):
        super().__init__(**options)
        self.loss, self.activation = loss, activation

    def call(self, y_true, y_pred):
        function = getattr(self.loss, "call", self.loss)
        return function(*_converted(self.loss, y_true, y_pred, self.activation))


class LogitsMetric(keras.metrics.Metric):
    """A metric of Keras that gets the same values as the loss in `LogitsLoss`."""

    def __init__(self, metric, activation, **options):
        super().__init__(**options)
        is_metric = isinstance(metric, keras.metrics.Metric)
        self.metric = metric if is_metric else keras.metrics.MeanMetricWrapper(metric)
        self.activation = activation

    def update_state(self, y_true, y_pred, sample_weight=None):
        converted = _converted(self.metric, y_true, y_pred, self.activation)
        self.metric.update_state(*converted, sample_weight)

    def result(self):
        return self.metric.result()


def _convert(activation, is_loss, identifier):
    if full := _SHORT.get(str(identifier).lower()):
        full = f"{'categorical' if activation == 'softmax' else 'binary'}_{full}"
    if full == "categorical_accuracy":
        return identifier  # Keras knows whether targets are ids
    module = keras.losses if is_loss else keras.metrics
    resolved = module.get(full or identifier)
    title = _title(resolved)
    name = getattr(resolved, "name", getattr(resolved, "__name__", None))
    modules = (getattr(x, "__module__", "") for x in (resolved, _function(resolved)))
    if not all(x.startswith("keras.") for x in modules):
        return identifier
    if inspect.isfunction(resolved):
        resolved = getattr(module, resolved.__name__.title().replace("_", ""), lambda: resolved)()
    if "hinge" in title:  # takes scores
        activation = "linear"
    if is_loss:
        config = resolved.get_config() if isinstance(resolved, keras.losses.Loss) else {}
        if "from_logits" in config:  # more precise than probabilities
            own = "sigmoid" if title.startswith("binary") else "softmax"
            resolved = type(resolved).from_config({**config, "from_logits": activation == own})
            activation = "linear" if activation == own else activation
        reduction = config.get("reduction", "sum_over_batch_size")
        return LogitsLoss(resolved, activation, name=name, reduction=reduction)
    if isinstance(identifier, str):
        name = identifier
        if activation == "sigmoid" and getattr(resolved, "beta", None):
            resolved.threshold = 0.5  # by default, an F1 score counts only the best label
    if any(getattr(resolved, x, None) == value for x, value in _LOGITS.items()):
        activation = "linear"
    return LogitsMetric(resolved, activation, name=name)


def for_logits(model, **arguments):
    """Return the loss and metrics of `compile` for the labels and logits of an `ObjectiveModel`.

    Losses and metrics of Keras receive what they expect: ids or one-hot rows, logits or
    probabilities. Others are unchanged, and so are all if the model has no logits or its
    `logits_activation` is "linear".
    """
    outputs = getattr(model, "output", None)
    outputs = outputs if isinstance(outputs, dict) else {}
    sizes = {x.shape[-1] for name, x in outputs.items() if name.endswith("logits")}
    if not (activation := model.logits_activation):
        # One output is the logit of a class or, with other losses, a score.
        start, default = ("binary", "bce"), "softmax"
        if sizes == {1}:
            start, default = (*start, "crossentropy", "ce"), "linear"
        titles = map(_title, keras.tree.flatten(arguments["loss"]))
        activation = "sigmoid" if any(x.startswith(start) for x in titles) else default
    if not sizes or activation == "linear":
        return arguments
    convert = {x: functools.partial(_convert, activation, x == "loss") for x in arguments}
    return {x: keras.tree.map_structure(convert[x], given) for x, given in arguments.items()}
