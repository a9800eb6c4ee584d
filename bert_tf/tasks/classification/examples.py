"""Labeled examples: their labels, numeric features and class weights."""

import dataclasses
import math
from collections import Counter

import numpy as np

from bert_tf import console
from bert_tf.data.columns import read_number
from bert_tf.errors import UserError
from bert_tf.tasks.classification.config import NumericFeature


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts and, except in test sets, a label.

    Attributes:
      where: file and line, for messages.
      label: a str; a float for regression; a tuple of str for multi-label tasks.
      id: the id in the data, or the row number from 0.
    """

    where: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple | None = None
    id: str | None = None
    numbers: tuple = ()

    def texts(self):
        """Return a dict from names for messages to the one or two texts."""
        if self.text_b is None:
            return {"text": self.text_a}
        return {"text_a": self.text_a, "text_b": self.text_b}


def read_label(dataset, cells):
    """Return the label in the cells of the label columns; raise ValueError if it is invalid."""
    if dataset.task_type == "regression":
        return read_number(cells[0], "the score")
    if dataset.task_type == "multi_label":
        return _read_label_set(dataset, cells)
    # Labels of GLUE are not stripped, as in the release.
    label = cells[0].strip() if dataset.layout else cells[0]
    if not label.strip():
        raise ValueError("the label is empty")
    return dataset.label_aliases.get(label, label)


def _read_label_set(dataset, cells):
    if len(dataset.layout.label) < 2:
        parts = (part.strip() for part in cells[0].split(dataset.layout.separator))
        return tuple(filter(None, parts))
    pairs = list(zip(dataset.labels or dataset.layout.label, cells, strict=True))
    for name, cell in pairs:
        if cell.strip() not in ("0", "1"):
            raise ValueError(f"the label {name} is {cell!r}, expected 0 or 1")
    return tuple(name for name, cell in pairs if cell.strip() == "1")


def label_set(label):
    """Return the labels of an example as a tuple, empty for scores and test examples."""
    if isinstance(label, tuple):
        return label
    return (label,) if isinstance(label, str) else ()


def find_labels(examples):
    """Return the distinct labels, sorted as numbers if all are integers, else as strings."""
    labels = {label for example in examples for label in label_set(example.label)}
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))


def with_known_labels(examples, labels, bad):
    """Return the examples whose labels are all in `labels`; report the others to `bad`."""
    known, result = set(labels), []
    for example in examples:
        unknown = [label for label in label_set(example.label) if label not in known]
        if unknown:
            bad(
                f"{example.where}: the label is {unknown[0]!r}, expected one of {', '.join(labels)}"
            )
        else:
            result.append(example)
    return result


def hold_out(examples, dev_split, stratify):
    """Return (training, held-out) examples in order; `stratify` keeps the label proportions."""
    from sklearn.model_selection import train_test_split

    counts = Counter(example.label for example in examples) if stratify else {}
    indices = [i for i, x in enumerate(examples) if not stratify or counts[x.label] > 1]
    size = round(dev_split.fraction * len(examples))
    if not 0 < size < len(indices):
        raise UserError(
            f"`dev_fraction={dev_split.fraction:g}`: found {len(examples)} training rows, which "
            f"leaves none for {'training' if size else 'evaluation'}"
        )
    labels = [examples[i].label for i in indices] if stratify else None
    if labels and min(size, len(indices) - size) < len(set(labels)):
        console.warning("`dev_fraction`: found too few rows to stratify by label")
        labels = None
    _, held_out = train_test_split(
        indices, test_size=size, random_state=dev_split.seed, stratify=labels
    )
    chosen = set(held_out)
    train = [x for i, x in enumerate(examples) if i not in chosen]
    console.info("%d of %d training rows held out for evaluation", len(chosen), len(examples))
    return train, [examples[i] for i in sorted(chosen)]


def make_example(where, texts, label, row_id, layout=None, cells=()):
    """Make an `Example`; `cells` are the numeric columns of a `columns.Layout`."""
    pairs = list(zip(layout.numbers, cells, strict=True)) if cells else []
    numbers = tuple(read_number(cell, name) for name, cell in pairs)
    text_a, text_b = (*texts, None)[:2]
    if pairs and layout.numeric_as == "text" and text_a.strip():
        # "age: 35, price: 2.5. TEXT": numbers first, because long texts are truncated at the end.
        words = (f"{name}: {cell.strip()}" for name, cell in pairs)
        text_a = f"{', '.join(words)}. {text_a}"
    return Example(where, text_a, text_b, label, row_id, numbers)


def measure_numbers(names, examples):
    """Return a training set's `NumericFeature`s as a tuple, one for each name."""
    # float32 cannot distinguish Unix times that are seconds apart.
    values = np.array([example.numbers for example in examples], "float64")
    # Rounding may give equal numbers a nonzero deviation.
    is_constant = values.min(0) == values.max(0)
    means, deviations = values.mean(0), np.where(is_constant, 0.0, values.std(0))
    for name, value in zip(names, deviations, strict=True):
        if not value:
            console.warning("`numeric_columns`: %s has only one value in the training set", name)
    return tuple(map(NumericFeature, names, means.tolist(), deviations.tolist()))


def normalize(values, numeric_features):
    """Scale values (..., F) to mean 0 and deviation 1, or only shift them if the deviation is 0."""
    means = np.array([feature.mean for feature in numeric_features])
    scales = np.array([feature.deviation or 1.0 for feature in numeric_features])
    return (values - means) / scales


def class_weights(choice, examples, labels, task_type):
    """Return and log the loss weights of L labels, given ("balanced",) or L numbers as text.

    The balanced weight of a label with n of N examples is N / (L * n). For `multi_label` it is
    (N - n) / n, which balances examples with and without the label.
    """
    if task_type == "regression":
        raise UserError("`class_weights` cannot be combined with `task_type=regression`")
    if list(choice) == ["balanced"]:
        counts = Counter(label for example in examples for label in label_set(example.label))
        is_multi_label, size = task_type == "multi_label", len(examples)
        for label in labels:
            if not counts[label] or (is_multi_label and counts[label] == size):
                count = "all training examples have" if counts[label] else "no training example has"
                raise UserError(f"`class_weights=balanced`: {count} the label {label!r}")
        if is_multi_label:
            weights = [(size - counts[label]) / counts[label] for label in labels]
        else:
            weights = [size / (len(labels) * counts[label]) for label in labels]
    else:
        try:
            weights = [float(text) for text in choice]
        except ValueError:
            weights = []
        if len(weights) != len(labels) or not all(0 <= w < math.inf for w in weights):
            raise UserError(
                f"`class_weights={','.join(choice)}`: expected balanced, or {len(labels)} "
                f"non-negative numbers for the labels {', '.join(labels)}"
            )
    pairs = zip(labels, weights, strict=True)
    console.info("class weights: %s", ", ".join(f"{label} {weight:.4g}" for label, weight in pairs))
    return tuple(weights)
