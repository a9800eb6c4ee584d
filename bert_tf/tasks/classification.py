"""Text classification: examples to features, the model's losses and its results."""

import json
import os
from typing import NamedTuple

import tensorflow as tf

from bert_tf import console, files
from bert_tf.config import BertConfig
from bert_tf.data import records
from bert_tf.errors import UserError, reason
from bert_tf.modeling import BertClassifier
from bert_tf.tasks.base import Task

CLS, SEP = "[CLS]", "[SEP]"

# Examples to tokenize at a time.
_BATCH = 1000


def truncate_pair(ids_a, ids_b, limit):
    """Shortens two lists in place to `limit` together, always the longer one by its last."""
    while len(ids_a) + len(ids_b) > limit:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()


def features(examples, labels, tokenizer, max_seq_length):
    """Turns examples into the values of records, as the release does.

    Args:
      examples: list of `tsv.Example`.
      labels: sequence of labels in the order of their ids.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.

    Yields:
      For each example a dict for `records.CLASSIFICATION`: `[CLS] a [SEP]` or
      `[CLS] a [SEP] b [SEP]`, padded with 0.

    Raises:
      UserError: if a label is not in `labels`; names file and line.
    """
    cls, sep = tokenizer.vocab[CLS], tokenizer.vocab[SEP]
    all_a = tokenizer.encode_batch(example.text_a for example in examples)
    all_b = tokenizer.encode_batch(example.text_b or "" for example in examples)
    for example, ids_a, ids_b in zip(examples, all_a, all_b, strict=True):
        if ids_b:
            truncate_pair(ids_a, ids_b, max_seq_length - 3)
        del ids_a[max_seq_length - 2 :]
        first = [cls, *ids_a, sep]
        second = [*ids_b, sep] if ids_b else []
        padding = [0] * (max_seq_length - len(first) - len(second))
        if example.label is not None and example.label not in labels:
            raise UserError(
                f"{example.where}: the label {example.label!r} is not one of {', '.join(labels)}"
            )
        yield {
            "input_ids": first + second + padding,
            "input_mask": [1] * (len(first) + len(second)) + padding,
            "segment_ids": [0] * len(first) + [1] * len(second) + padding,
            "label_ids": 0 if example.label is None else labels.index(example.label),
            "is_real_example": 1,
        }


def write_features(path, examples, labels, tokenizer, max_seq_length):
    """Writes the features of all examples to a TFRecord file, whole or not at all."""
    ticker = console.Ticker(f"writing {path}", "examples", total=len(examples))
    with records.writing([path], records.CLASSIFICATION) as write:
        for start in range(0, len(examples), _BATCH):
            batch = examples[start : start + _BATCH]
            for values in features(batch, labels, tokenizer, max_seq_length):
                write(values)
                ticker.add()
    ticker.done()


class ClassificationTask(Task):
    """Trains a `BertClassifier` on classification records."""

    loss_names = ("classification_loss",)
    metric_names = ("eval_accuracy", "eval_loss", "loss")

    def __init__(self, config, num_labels, dtype=None):
        self.model = BertClassifier(config, num_labels, dtype=dtype)

    def loss_weights(self, batch):
        return {"examples": tf.cast(tf.shape(batch["label_ids"])[0], tf.float32)}

    def losses(self, outputs, batch, weights):
        total = tf.reduce_sum(self._example_losses(outputs, batch))
        return {"classification_loss": total / weights["examples"]}

    def _example_losses(self, outputs, batch):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["label_ids"], logits=outputs["logits"]
        )

    def predictions(self, outputs, batch):
        return {
            "probabilities": tf.nn.softmax(outputs["logits"]),
            "label_ids": batch["label_ids"],
            "loss": self._example_losses(outputs, batch),
        }

    def metrics(self, predictions):
        best = predictions["probabilities"].argmax(-1)
        loss = predictions["loss"].mean(dtype="float64")
        return {
            "eval_accuracy": (best == predictions["label_ids"]).mean(),
            "eval_loss": loss,
            "loss": loss,
        }


# What a fine-tuned model is besides its weights. It lies in the output folder, for export and
# conversion, and so that a run is not continued on other labels.
_SETTINGS, _CONFIG, _VOCABULARY = files.CLASSIFIER, files.CONFIG, files.VOCABULARY


class Settings(NamedTuple):
    """Labels in the order of their ids, lengths and casing, a `BertConfig`, a vocabulary's path."""

    labels: tuple
    max_seq_length: int
    do_lower_case: bool
    config: BertConfig
    vocab_file: str


def settle(output_dir, settings, write):
    """Sees that a run goes on with the settings that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `Settings` of the flags and the data.
      write: whether to write them where there are none yet.

    Raises:
      UserError: if the folder has others.
    """
    before = load_settings(output_dir)
    if before is None:
        if write:
            _save_settings(output_dir, settings)
        return
    for name in ("labels", "do_lower_case", "config", "vocab_file"):
        old, new = getattr(before, name), getattr(settings, name)
        if name == "vocab_file":
            old, new = files.read_text(old), files.read_text(new)
        if old != new:
            shown = f": {old} there, {new} now" if name in ("labels", "do_lower_case") else ""
            raise UserError(
                f"--output_dir: {output_dir} holds a run with another {name}{shown}; give the same "
                "again, or another --output_dir"
            )


def _save_settings(output_dir, settings):
    values = {
        "labels": list(settings.labels),
        "max_seq_length": settings.max_seq_length,
        "do_lower_case": settings.do_lower_case,
    }
    files.write_text(os.path.join(output_dir, _CONFIG), settings.config.to_json_string())
    text = files.read_text(settings.vocab_file)
    files.write_text(os.path.join(output_dir, _VOCABULARY), text)
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    files.write_text(os.path.join(output_dir, _SETTINGS), text)


def load_settings(output_dir):
    """Reads the `Settings` of the run in a folder; None if it has none."""
    path = os.path.join(output_dir, _SETTINGS)
    if not tf.io.gfile.exists(path):
        return None
    try:
        values = json.loads(files.read_text(path))
        return Settings(
            tuple(values["labels"]),
            values["max_seq_length"],
            values["do_lower_case"],
            BertConfig.from_json_file(os.path.join(output_dir, _CONFIG)),
            os.path.join(output_dir, _VOCABULARY),
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the settings of a classifier ({reason(error)})") from None


def write_test_results(path, probabilities):
    """Writes `test_results.tsv`: one row an example, the probability of each label.

    Args:
      path: the file.
      probabilities: iterable of arrays (B, labels).
    """
    with files.replacing(path) as (temporary,), tf.io.gfile.GFile(temporary, "w") as writer:
        for batch in probabilities:
            for row in batch:
                writer.write("\t".join(map(str, row)) + "\n")
