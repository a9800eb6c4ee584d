"""The interface of a task: `Objective`, `TaskData` and `TaskSpec`, all its parts."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.configs.task import base_split
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.training import results


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

    def loss_weights(self, batch):
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

    def losses(self, outputs, batch, weights, training=True):
        """Return the batch's share of each loss: a dict of float32 scalars by `loss_names`.

        Args:
          outputs: the model's training outputs.
          batch: dict of tensors (B, ...), B the batch size of one replica.
          weights: the sums of `loss_weights` over the global batch.
          training: whether to multiply the losses by the weights of labels.
        """
        raise NotImplementedError

    def fit_metrics(self, outputs, batch):
        """Return pairs of values and weights, tensors (B, ...), by `fit_metric_names`.

        Keras' logs contain the weighted mean over an epoch.
        """
        return {}

    def keras_targets(self, batch, weights):
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
    # `ops.argmax` of TensorFlow treats -0.0 specially, with integers that a GPU leaves to the host.
    return ops.top_k(logits, 1)[1][..., 0]


class TaskData:
    """The examples of a run, and what the task does with them.

    The name of a split starts with "train", "dev" or "test", such as "dev_mismatched".

    Attributes:
      examples: dict from split to examples.
      config: the `TaskConfig` of the model.
      unit: plural noun for the training examples, in messages.
      data_files: paths of the files that contain the examples.
      predicted_split: "test", or "dev" if a single split is evaluated and predicted.
    """

    unit = "examples"
    predicted_split = "test"

    def __init__(self, examples, config, data_files=()):
        self.examples, self.config, self.data_files = examples, config, data_files

    def splits(self, base):
        """Return the names of the "train", "dev" or "test" splits that were read."""
        return [split for split in self.examples if base_split(split) == base]

    def features(self, split, tokenizer):
        """Return the `data.features.Features` of a split."""
        raise NotImplementedError

    def num_train_examples(self, features=None):
        """Return the number of examples in a training epoch; None if it needs the features."""
        return len(self.examples["train"])

    def make_objective(self, model, pad_to_max_length=False):
        """Make the `Objective` of a Keras model, in the strategy's scope; see `TrainConfig`."""
        raise NotImplementedError

    def start_training(self, model):
        """Prepare the Keras model, which has its initial or restored weights, for training."""

    def write_results(self, objective, split, batches, folder, evaluates, predicts):
        """Write the result files of a split, and return its metrics if it is evaluated.

        Args:
          objective: the `Objective`.
          split: name of the split.
          batches: iterable of the predictions of each batch; see `Loop.predict`.
          folder: folder for the files; None for a worker process that does not write them.
          evaluates: whether to compute the metrics and, with the option `report`, the report.
          predicts: whether to write the predictions.
        """
        predictions = concatenate(batches)
        if predicts and folder:
            self.write_predictions(objective, predictions, split, folder)
        if evaluates and folder and getattr(self.config, "report", False):
            text = self.report(objective, predictions)
            console.info("%s", text)
            path = results.result_file(folder, "eval_report", split, ".txt")
            files.write_text(path, text)
        return objective.metrics(predictions) if evaluates else None

    def report(self, objective, predictions):
        """Return the text of `eval_report.txt` for the predictions of a split."""
        raise NotImplementedError

    def write_predictions(self, objective, predictions, split, folder):
        """Write test_results.tsv and test_predictions.tsv."""
        ids = [example.id for example in self.examples[split]]
        answers = self.answers(objective, predictions, split)
        results.write_predictions(folder, split, ids, *answers)

    def answers(self, objective, predictions, split):
        """Return the predictions as N texts, the names of the labels, and an array (N, ...)."""
        raise NotImplementedError


def concatenate(batches):
    """Return the predictions of all batches as one dict of arrays; UserError without any."""
    if not (batches := list(batches)):
        raise UserError("there are no examples to evaluate or predict")
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A kind of exported model, as `model.json` and `export_model.py --task` name it.

    Attributes:
      answer: function from the outputs of a row, a dict of arrays, and the contents of `model.json`
        to the answer, a dict for `json.dumps`. None returns all outputs.
      table_columns: function from an answer to the columns that it adds to a row of a table.
      config: the values of the task's `TaskConfig` that distinguish this kind.
    """

    answer: Callable | None = None
    table_columns: Callable = dict
    config: dict = dataclasses.field(default_factory=dict)


class TaskSpec:
    """The components of a task: the part of its class on strings that scripts and export use.

    A task without a script has no `read`, and no side file in `config_class`.

    Attributes:
      name: name of the task, such as "question_answering".
      config_class: the `TaskConfig` class.
      read: function from (options, pretrained, splits, stored) to `TaskData`, with resolved
        `TaskOptions`, `checkpoints.PretrainedFiles`, the required ones of "train", "dev" and
        "test", in order, and the `TaskConfig` of a trained run or None.
      make_model: function from (config, dtype) to the Keras model.
      make_servable: function from (model, config, `configs.ServingConfig`) to a `serving.Servable`.
      served: dict from names of exported models to `ServedTask`. If empty, the task is served under
        its own name with all outputs as answers.
    """

    name: str
    config_class: Any
    read: Any = None
    make_model: Any
    make_servable: Any
    served: ClassVar[dict[str, ServedTask]] = {}
