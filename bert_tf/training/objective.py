"""`Objective`: the losses, predictions and metrics of a task; `RunData`: its examples."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_tf.configs.task import DataOptions, TaskConfig, base_split
from bert_tf.errors import UserError


class Objective:
    """A model with its losses, predictions and metrics.

    Subclasses create `model` in their constructor, which runs in the strategy's scope, or get it as
    an argument. All methods except `metrics` are traced on any backend, so they must use
    `keras.ops` only. Their shapes are static except for the sequence length (on a TPU it is static
    too) and, in Keras' `fit`, the batch size.

    A batch is a dict of the features of the records. Two optional features change the losses:
    `sample_weight`, float32 (B,), multiplies the loss of an example, but the denominators stay.
    Examples whose `is_real_example` (B,) is 0 do not count.
    """

    model = None
    class_weights: tuple[float, ...] | None = None
    # The label in a batch, for class weights.
    label_name = ""
    loss_names: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    # The settings that the losses depend on, by name.
    key: dict[str, Any] = {}  # noqa: RUF012
    # Names of the metrics during `fit`.
    fit_metric_names: tuple[str, ...] = ()
    # Whether losses or predictions read the model's outputs at padding. If not, they are not
    # computed on a CPU (`modeling.token_layout`).
    reads_padding = False
    # Whether the loss of an example depends on the outputs of all replicas.
    compares_replicas = False

    def denominators(self, batch):
        """Return this batch's share of the denominator of each loss: a dict of float32 scalars.

        By default, it is the number of real examples. They are summed over the replicas and the
        micro-batches of gradient accumulation before `losses` is called, so that each loss is the
        mean over the global batch.
        """
        return {"examples": ops.sum(self._is_real(batch))}

    @staticmethod
    def _is_real(batch):
        """Return 1 for real examples and 0 for copies that fill a batch, float32 (B,)."""
        if "is_real_example" in batch:
            return ops.cast(batch["is_real_example"], "float32")
        return ops.ones(ops.shape(batch["input_ids"])[:1])

    def example_weights(self, batch):
        """Return the factors of the losses of the examples, float32 (B,)."""
        weights = self._is_real(batch)
        return weights * batch["sample_weight"] if "sample_weight" in batch else weights

    def class_factors(self, batch):
        """Return the weights of the labels of the examples or words, a number or (B, ...)."""
        if self.class_weights is None:
            return 1.0
        weights = ops.convert_to_tensor(self.class_weights, "float32")
        if self.label_name in batch:
            return ops.take(weights, batch[self.label_name])
        return ops.sum(weights * batch["label_values"], -1)

    def losses(self, outputs, batch, denominators, training=True):
        """Return the batch's share of each loss: a dict of float32 scalars by `loss_names`.

        Args:
          outputs: the model's training outputs.
          batch: dict of tensors (B, ...), B the batch size of one replica.
          denominators: the sums of the method `denominators` over the global batch.
          training: whether to multiply the losses by the weights of labels.
        """
        raise NotImplementedError

    def fit_metrics(self, outputs, batch):
        """Return pairs of values and weights, tensors (B, ...), by `fit_metric_names`.

        Keras' logs contain the weighted mean over an epoch.
        """
        return {}

    def keras_targets(self, batch, denominators):
        """Return targets and factors for Keras' losses and metrics, in the model's structure.

        The loss is the sum of the products of losses and factors over the global batch.
        """
        raise NotImplementedError

    def predictions(self, outputs, batch):
        """Return the predictions for a batch: a dict of tensors (B, ...)."""
        raise NotImplementedError

    def metrics(self, predictions):
        """Return a dict of metrics from the predictions of a split, a dict of arrays (N, ...).

        The keys are `metric_names`. Lower is better for names with "loss" or "error", else higher.
        """
        raise NotImplementedError


def argmax(logits):
    """Return the index of the largest logit, int32 (...), the first one if several are equal."""
    # `ops.argmax` of TensorFlow treats -0.0 specially, by integer operations that run on the host.
    return ops.top_k(logits, 1)[1][..., 0]


@dataclasses.dataclass(frozen=True)
class RunData:
    """The data of a run.

    Attributes:
      examples: dict from split to examples. The name of a split starts with "train", "dev" or
        "test", such as "dev_mismatched".
      config: the `TaskConfig` of the model.
      options: the `DataOptions` of the task.
      files: paths of the files with the examples.
      class_weights: the weights of the labels in the training loss, in the order of their ids.
      metrics: further metrics of the data set, names of `results.METRICS`.
      predicted_split: the split that a run predicts, "test" or "dev".
      pad_to_max_length: whether the loss may read padding, as in the release; see `TrainConfig`.
    """

    examples: dict
    config: TaskConfig
    options: DataOptions
    files: Sequence = ()
    class_weights: tuple[float, ...] | None = None
    metrics: tuple[str, ...] = ()
    predicted_split: str = "test"
    pad_to_max_length: bool = False

    def splits(self, base):
        """Return the names of the "train", "dev" or "test" splits that were read."""
        return [split for split in self.examples if base_split(split) == base]


def concatenate(batches):
    """Join the predictions of all batches in a dict of arrays; raise UserError without batches."""
    if not (batches := list(batches)):
        raise UserError("there are no examples to evaluate or predict")
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
