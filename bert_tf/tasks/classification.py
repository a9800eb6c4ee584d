"""Text classification: examples to features, the model's losses and its results."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf import console
from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.modeling import BertClassifier
from bert_tf.tasks import metrics
from bert_tf.tasks.base import Task
from bert_tf.tasks.numbers import normalise

CLS, SEP = "[CLS]", "[SEP]"

# Examples to tokenize at a time.
_BATCH = 1000


class DistillationConfig(NamedTuple):
    """How a model learns from a teacher's answers.

    `weight` is the share of the loss that they make, the labels make the rest; `temperature` is
    what the logits of both are divided by before they are compared.
    """

    weight: float = 1.0
    temperature: float = 1.0


class ClassificationTask(Task):
    """Trains a `BertClassifier` on classification records: one of L labels.

    What differs between the kinds of task in `kinds.TASK_CLASSES` is overridden there: the schema
    of the
    records and their label, the answers made of the logits, the loss and the metrics.
    """

    task_type = "classification"
    schema = records.CLASSIFICATION
    # The feature of `schema` that is the label.
    label_name = "label_ids"
    # What `answers` gives.
    answer_name = "probabilities"
    loss_names = ("classification_loss",)
    metrics_used: tuple[str, ...] = ("accuracy",)

    def __init__(
        self,
        config,
        num_labels,
        dtype=None,
        more_metrics=(),
        num_numbers=0,
        class_weights=None,
        teaching=None,
    ):
        """Makes the model.

        Args:
          config: a `BertConfig`.
          num_labels: L.
          dtype: a Keras dtype policy.
          more_metrics: names of `metrics.METRICS` to compute beside those of every such task.
          num_numbers: F, how many numbers there are beside the text.
          class_weights: L numbers that the loss of an example is multiplied by in training.
          teaching: `DistillationConfig`, where the records have what a teacher answers.
        """
        self.model = BertClassifier(config, num_labels, dtype, num_numeric_features=num_numbers)
        self.metrics_used = (*self.metrics_used, *more_metrics)
        self.class_weights = class_weights
        self.teaching = teaching
        if teaching:
            ours = self.loss_names if teaching.weight < 1 else ()
            self.loss_names = (*ours, "teacher_loss")

    @property
    def metric_names(self):
        return _names_of(self.metrics_used)

    @classmethod
    def names_of_metrics(cls, more_metrics=()):
        """The `metric_names` that a task of this kind will have with `more_metrics`."""
        return _names_of((*cls.metrics_used, *more_metrics))

    @staticmethod
    def encode(label, labels):
        """The value of the label in a record.

        Args:
          label: that of an `Example`; None in a test set.
          labels: all of them in the order of their ids.

        Raises:
          ValueError: if it is none of them.
        """
        return 0 if label is None else labels.index(label)

    @staticmethod
    def answers(logits):
        """What the model says: logits (B, L) float32 -> dict of float32 (B, L)."""
        return {"probabilities": tf.nn.softmax(logits)}

    @staticmethod
    def decide(predictions):
        """What is compared with the labels: dict of arrays (N, ...) -> label ids (N,)."""
        return predictions["probabilities"].argmax(-1)

    def loss_weights(self, batch):
        return {"examples": tf.cast(tf.shape(batch["input_ids"])[0], tf.float32)}

    def losses(self, outputs, batch, weights):
        share = self.teaching.weight if self.teaching else 0.0
        parts = []
        if share < 1:
            ours = self._example_losses(outputs, batch, self.class_weights)
            parts.append((1.0 - share) * ours)
        if self.teaching:
            parts.append(share * self._teacher_losses(outputs, batch))
        return {
            name: tf.reduce_sum(part) / weights["examples"]
            for name, part in zip(self.loss_names, parts, strict=True)
        }

    def _example_losses(self, outputs, batch, class_weights=None):
        """The loss of each example, (B,)."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["label_ids"], logits=outputs["logits"]
        )
        if class_weights is None:
            return losses
        return losses * tf.gather(tf.constant(class_weights, tf.float32), batch["label_ids"])

    def _teacher_losses(self, outputs, batch):
        """How far the answers are from the teacher's, for each example, (B,).

        Cross entropy of both at a temperature, whose square keeps its gradients as large as without
        (Hinton et al., arXiv:1503.02531, section 2). At 1 it is the loss of "Well-read students
        learn better" (Turc et al., arXiv:1908.08962, section 2).
        """
        temperature = self.teaching.temperature
        return temperature**2 * tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.nn.softmax(batch["teacher_logits"] / temperature),
            logits=outputs["logits"] / temperature,
        )

    def predictions(self, outputs, batch):
        return {
            "logits": outputs["logits"],
            **self.answers(outputs["logits"]),
            self.label_name: batch[self.label_name],
            "loss": self._example_losses(outputs, batch),
        }

    def compared(self, predictions):
        """(labels of the data, labels found), as `metrics.METRICS` takes them."""
        return predictions[self.label_name], self.decide(predictions)

    def metrics(self, predictions):
        true, found = self.compared(predictions)
        loss = predictions["loss"].mean(dtype="float64")
        results = {f"eval_{name}": metrics.METRICS[name](true, found) for name in self.metrics_used}
        return {**results, "eval_loss": loss, "loss": loss}


def _names_of(metrics_used):
    return (*(f"eval_{name}" for name in metrics_used), "eval_loss", "loss")


def truncate_pair(ids_a, ids_b, limit):
    """Shortens two lists in place to `limit` together, always the longer one by its last."""
    while len(ids_a) + len(ids_b) > limit:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()


def pack_pair(ids_a, ids_b, tokenizer, max_seq_length):
    """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, shortened as in the release and padded with 0.

    Args:
      ids_a: list of the first text's ids; it is shortened in place.
      ids_b: list of the second one's, shortened too; empty for a single text.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.

    Returns:
      Dict of lists of S numbers: `input_ids`, `input_mask`, `segment_ids`.
    """
    if ids_b:
        truncate_pair(ids_a, ids_b, max_seq_length - 3)
    del ids_a[max_seq_length - 2 :]
    sep = tokenizer.vocab[SEP]
    first = [tokenizer.vocab[CLS], *ids_a, sep]
    second = [*ids_b, sep] if ids_b else []
    padding = [0] * (max_seq_length - len(first) - len(second))
    return {
        "input_ids": first + second + padding,
        "input_mask": [1] * (len(first) + len(second)) + padding,
        "segment_ids": [0] * len(first) + [1] * len(second) + padding,
    }


def schema_of(task, numbers=(), is_taught=False):
    """The schema of a task's records.

    Args:
      task: a class of `kinds.TASK_CLASSES`.
      numbers: the `numbers.Number`s beside the text.
      is_taught: whether they have a teacher's logits.
    """
    more = {**(records.NUMBERS if numbers else {}), **(records.TEACHER if is_taught else {})}
    return {**task.schema, **more}


def features(
    examples,
    labels,
    tokenizer,
    max_seq_length,
    task=ClassificationTask,
    numbers=(),
    teacher_logits=None,
):
    """Turns examples into the values of records, as the release does.

    Args:
      examples: list of `tsv.Example`.
      labels: sequence of labels in the order of their ids.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.
      task: the class of `kinds.TASK_CLASSES` that the records are for.
      numbers: the `numbers.Number`s by which to normalise those of the examples.
      teacher_logits: array (N, L) of those of a teacher, None without one.

    Yields:
      For each example a dict for `schema_of` it: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded
      with 0.

    Raises:
      UserError: if a label is not in `labels`; names file and line.
    """
    all_a = tokenizer.encode_batch(example.text_a for example in examples)
    all_b = tokenizer.encode_batch(example.text_b or "" for example in examples)
    for i, (example, ids_a, ids_b) in enumerate(zip(examples, all_a, all_b, strict=True)):
        try:
            label = task.encode(example.label, labels)
        except ValueError:
            raise UserError(
                f"{example.where}: the label {example.label!r} is not one of {', '.join(labels)}"
            ) from None
        more = {"numbers": normalise(example.numbers, numbers)} if numbers else {}
        if teacher_logits is not None:
            more["teacher_logits"] = teacher_logits[i]
        yield {
            **more,
            **pack_pair(ids_a, ids_b, tokenizer, max_seq_length),
            task.label_name: label,
            "is_real_example": 1,
        }


def write_features(
    path,
    examples,
    labels,
    tokenizer,
    max_seq_length,
    task=ClassificationTask,
    numbers=(),
    teacher_logits=None,
):
    """Writes the `features` of all examples to a TFRecord file, whole or not at all."""
    ticker = console.Ticker(f"writing {path}", "examples", total=len(examples))
    with records.writing([path], schema_of(task, numbers, teacher_logits is not None)) as write:
        for start in range(0, len(examples), _BATCH):
            part = slice(start, start + _BATCH)
            theirs = None if teacher_logits is None else teacher_logits[part]
            for values in features(
                examples[part], labels, tokenizer, max_seq_length, task, numbers, theirs
            ):
                write(values)
                ticker.add()
    ticker.done()
