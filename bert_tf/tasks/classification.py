"""Text classification: examples to features, the model's losses and its results."""

import json
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.config import BertConfig
from bert_tf.data import records
from bert_tf.errors import UserError
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


# What a fine-tuned model is besides its weights. It lies in the output folder, so that prediction
# and export need no flag repeated.
_SETTINGS = "classifier.json"
_CONFIG = "bert_config.json"
_VOCABULARY = "vocab.txt"


def save_settings(output_dir, config, vocab_file, labels, max_seq_length, do_lower_case):
    """Writes labels, lengths, config and vocabulary of a classifier into its output folder."""
    settings = {
        "labels": list(labels),
        "max_seq_length": max_seq_length,
        "do_lower_case": do_lower_case,
    }
    files.write_text(os.path.join(output_dir, _CONFIG), config.to_json_string())
    files.write_text(os.path.join(output_dir, _VOCABULARY), files.read_text(vocab_file))
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    files.write_text(os.path.join(output_dir, _SETTINGS), text)


def load_settings(output_dir):
    """Reads what `save_settings` wrote.

    Returns:
      Dict of `labels`, `max_seq_length`, `do_lower_case`, `config` (a `BertConfig`) and
      `vocab_file` (a path), or None if the folder has none.
    """
    path = os.path.join(output_dir, _SETTINGS)
    if not tf.io.gfile.exists(path):
        return None
    try:
        settings = json.loads(files.read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    settings["labels"] = tuple(settings["labels"])
    settings["config"] = BertConfig.from_json_file(os.path.join(output_dir, _CONFIG))
    settings["vocab_file"] = os.path.join(output_dir, _VOCABULARY)
    return settings


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
