"""Labels by one rule for lists, arrays, tensors, columns, files and class weights."""

import math
import numbers
from collections import Counter
from collections.abc import Mapping

import numpy as np

from bert_tf import console
from bert_tf.data.tables import MissingValue, as_text, is_missing, to_python
from bert_tf.errors import UserError, abbreviate, shown

_USE_SETS = "; for any number of labels per text, use `task_type=multi_label`"
# Maximum number of labels in a message.
_MAX_LABELS = 20
# How much the sum of a distribution may differ from 1.
_TOLERANCE = 1e-3
# Roughly the largest float32.
_LARGEST = 3.4e38


class Labels:
    """The L labels of a model, in the order of their ids, and the one rule to read a label.

    * A text is a label as written, except for white space around it.
    * A number is the label that is its plain form: 1 and 1.0 are "1", but not "01". Without such
      a label, 1.0 is "1.0", and a float32 is the label with its digits. A number is an index if no
      label is a number. A text is never an index.
    * A boolean is the label "True" or "False".
    * A row of L numbers is, for "classification", a distribution over the labels or has a single 1;
      for "multi_label", it has a 1 for each label of the example.
    * None, NaN, pandas' NA and NaT, and a blank text are a missing label. For "multi_label", a
      blank text is an example without labels.

    Before the labels are known, `names` is (), and `label_of` returns the plain form of a number.

    Args:
      names: the labels.
      task_type: "classification", "multi_label" or "regression", which reads scores.
      class_names: for integers of a `ClassLabel` (datasets or tensorflow-datasets), its names,
        which must be among the labels, in upper or lower case.
      separator: the character between the labels in a text, for "multi_label".
      aliases: dict from other spellings to labels.

    Raises:
      UserError: if the class names do not match the labels.
    """

    def __init__(
        self, names, task_type="classification", class_names=(), separator=",", aliases=()
    ):
        self.names, self.task_type = tuple(name.strip() for name in names), task_type
        self._separator = separator
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._texts = {**dict(zip(self.names, self.names, strict=True)), **dict(aliases)}
        self._has_numbers = any(map(is_number, self.names))
        self._class_names = tuple(class_names)
        if self.names and class_names:
            lowered = {name.lower(): label for name, label in self._texts.items()}
            class_labels = [self._texts.get(x, lowered.get(x.lower())) for x in class_names]
            if None in class_labels:
                data, labels = (abbreviate(x, _MAX_LABELS) for x in (class_names, self.names))
                raise UserError(
                    f"`labels`: the names of the labels in the data are {data}, expected {labels}; "
                    'to read integers without names, pass data["text"] and data["label"]'
                )
            self._class_names = tuple(class_labels)

    def label_of(self, value):
        """Return the canonical form of a label, in any type and container; None if it is missing.

        It is a name, a tuple of names ("multi_label"), a float ("regression"), or a tuple of L
        probabilities.

        Raises:
          ValueError: if the value is not a label; the message has the reason.
        """
        is_set = isinstance(value, (set, frozenset))
        value = _simplify(value)
        if isinstance(value, list) and len(value) == 1 and self.task_type != "multi_label":
            return self.label_of(value[0])
        if self.task_type == "multi_label" and isinstance(value, (str, list)):
            return self._read_set(value, can_be_row=not is_set and not self._class_names)
        if _is_missing(value):
            return None
        if self.task_type == "regression":
            return read_number(shown(value) if isinstance(value, bool) else value, "the score")
        if self.task_type == "multi_label":
            return (self._read_name(value),)
        return self._read_distribution(value) if isinstance(value, list) else self._read_name(value)

    def read_cells(self, cells):
        """Read a label from its cell, or from L cells with a number for each label.

        Raises:
          ValueError: as `label_of`, or if the label is missing.
        """
        if len(cells) == 1:
            label = self.label_of(cells[0])
        elif all(_is_missing(_simplify(cell)) for cell in cells):
            label = None
        else:
            pairs = zip(self.names, cells, strict=True)
            row = [read_number(_simplify(cell), f"the label {name}") for name, cell in pairs]
            for name, number in zip(self.names, row, strict=True):
                if self.task_type == "multi_label" and number not in (0, 1):
                    raise ValueError(f"the label {name} is {number:g}, expected 0 or 1")
            label = self.label_of(row)
        if label is None:
            raise MissingValue("the label is missing")
        return label

    @staticmethod
    def find(labels):
        """Return the names in canonical labels, sorted as numbers if all are integers."""
        sets = (label if isinstance(label, tuple) else (label,) for label in labels)
        names = {name for names in sets for name in names if isinstance(name, str)}
        are_integers = all(name.removeprefix("-").isdecimal() for name in names)
        return tuple(sorted(names, key=int if are_integers else None))

    def encode(self, label):
        """Convert a canonical label to its target in a record; None, in test sets, is 0.

        The target is an id (int), a score (float32), or a float32 row (L,) of 0 and 1 or of a
        distribution. Use `row` for all examples if any of them has a distribution.
        """
        if self.task_type == "regression":
            return np.float32(label or 0.0)
        if self.task_type == "multi_label" or isinstance(label, tuple):
            return self.row(label)
        return 0 if label is None else self._ids[label]

    def row(self, label):
        """Convert a canonical label to a float32 row (L,) of 0 and 1 or of a distribution."""
        row = np.zeros(len(self.names), "float32")
        if isinstance(label, tuple) and self.task_type == "classification":
            row[:] = label
        elif label:
            row[[self._ids[name] for name in ((label,) if isinstance(label, str) else label)]] = 1.0
        return row

    def weights(self, choice, labels, argument="class_weights"):
        """Return and log the loss weights of the labels, as a tuple of L floats.

        The balanced weight of a label with n of N examples is N / (L * n), as in scikit-learn, with
        L labels that occur. For "multi_label" it is (N - n) / n, which balances examples with and
        without the label. Labels that have nothing to balance get the weight 1 and a warning.

        Args:
          choice: "balanced"; a dict from labels to weights, 1 for other labels; or L numbers.
          labels: the canonical labels of the training set, for "balanced".
          argument: the name of `choice`, for messages.
        """
        if self.task_type == "regression":
            raise UserError(f"`{argument}` cannot be combined with `task_type=regression`")
        choice = [choice] if isinstance(choice, str) else choice
        if not isinstance(choice, Mapping) and list(choice) == ["balanced"]:
            weights = self._balanced_weights(list(labels), argument)
        else:
            try:
                weights = self._given_weights(choice)
            except ValueError as error:
                raise UserError(
                    f"`{argument}`: {error}; use balanced, or a non-negative weight for each of "
                    f"the labels {', '.join(self.names)}"
                ) from None
        pairs = (f"{name} {x:.4g}" for name, x in zip(self.names, weights, strict=True))
        console.info("class weights: %s", ", ".join(pairs))
        return tuple(weights)

    def _given_weights(self, choice):
        if isinstance(choice, Mapping):
            names = [self._read_name(_simplify(label)) for label in choice]
            if len(set(names)) < len(names):
                raise ValueError(f"found {shown(choice)}, where a label occurs twice")
            given = zip(names, choice.values(), strict=True)
            choice = {**dict.fromkeys(self.names, 1.0), **dict(given)}.values()
        weights = [read_number(weight, "a weight") for weight in choice]
        if len(weights) != len(self.names) or min(weights) < 0:
            raise ValueError(f"found the weights {shown(weights)}")
        return weights

    def _balanced_weights(self, labels, argument):
        is_multi_label = self.task_type == "multi_label"
        size = len(labels)
        counts = sum(map(self.row, labels), np.zeros(len(self.names)))
        is_constant = (counts == 0) | (is_multi_label & (counts == size))
        if names := [self.names[i] for i in np.flatnonzero(is_constant)]:
            where = "none or all of the" if is_multi_label else "none of the"
            console.warning(
                "`%s=balanced`: %s training examples have the labels %s; their weight is 1",
                argument, where, abbreviate(names, _MAX_LABELS),
            )  # fmt: skip
        sums = size - counts if is_multi_label else size / (~is_constant).sum().clip(1)
        return np.where(is_constant, 1.0, sums / counts.clip(1e-9)).tolist()

    def _read_name(self, value):
        name = as_name(value)
        is_numeric = isinstance(value, numbers.Number) and not isinstance(value, bool)
        if self._class_names and is_numeric:
            if value not in range(len(self._class_names)):
                count = len(self._class_names)
                raise ValueError(f"the label is {value}, expected an index less than {count}")
            return self._class_names[int(value)]
        forms = [_plain_form(value), name] if is_numeric else [name]
        if isinstance(value, float) and abs(value) < _LARGEST and np.float32(value) == value:
            forms.append(str(np.float32(value)))  # pandas and Arrow return it as float64
        for text in forms:
            if text in self._texts or not self.names:
                return self._texts.get(text, text)
        if is_numeric and not self._has_numbers and value in range(len(self.names)):
            return self.names[int(value)]
        names = abbreviate(self.names, _MAX_LABELS)
        advice = ""
        if isinstance(value, bool):
            advice = '; convert it to text, as df["label"].map({True: ..., False: ...}) does'
        raise ValueError(f"the label is {shown(value)}, expected one of {names}{advice}")

    def _read_distribution(self, row):
        row = list(map(_simplify, row))
        if not all(isinstance(x, numbers.Number) for x in row):
            raise ValueError(f"the labels are {shown(row)}, which requires `task_type=multi_label`")
        if len(row) != len(self.names):
            expected = f"a label or a probability for each of {len(self.names)} labels{_USE_SETS}"
            raise ValueError(f"found {len(row)} numbers, expected {expected}")
        if not (abs(math.fsum(row) - 1) <= _TOLERANCE and min(row) >= 0):
            advice = _USE_SETS if {*row} <= {0, 1} else ""
            expected = f"expected probabilities that sum to 1{advice}"
            raise ValueError(f"found the row {shown(row)}, {expected}")
        if Counter(row) == {0: len(row) - 1, 1: 1}:
            return self.names[row.index(1)]
        return tuple(map(float, row))

    def _read_set(self, value, can_be_row):
        if isinstance(value, str):
            value = [x for x in map(str.strip, value.split(self._separator)) if x]
        values = list(map(_simplify, value))
        are_numbers = all(isinstance(x, numbers.Number) for x in values)
        is_row = can_be_row and are_numbers and len(values) == len(self.names)
        if is_row and set(values) <= {0, 1}:
            row = tuple(name for name, number in zip(self.names, values, strict=True) if number)
            # Integers may also be the labels themselves.
            names = {str(x) for x in values if type(x) is int}
            if len(names) == len(values) and set(row) != names <= set(self.names):
                found = f"found {shown(values)}, which is ambiguous because the labels are numbers"
                expected = "a row of floats or booleans, or a list of labels as text"
                raise ValueError(f"{found}; expected {expected}")
            return row
        names = tuple(dict.fromkeys(map(self._read_name, values)))
        if are_numbers and len(names) < len(values):
            expected = f"different labels or a row of {len(self.names)} numbers 0 and 1"
            raise ValueError(f"found {shown(values)}, expected {expected}")
        return names


def as_name(value):
    """Return a label as text; ValueError unless it is a text, a number or a boolean."""
    if _is_missing(value):
        raise MissingValue("the label is missing")
    if isinstance(value, complex) or not isinstance(value, (str, numbers.Number)):
        advice = 'convert other types to text, such as df["label"].astype(str)'
        expected = "expected a label: a text, a number or a boolean"
        raise ValueError(f"found {shown(value)}, {expected}; {advice}")
    return as_text(value).strip() if isinstance(value, str) else str(value)


def _simplify(value):
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else to_python(value)


def _is_missing(value):
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def _plain_form(number):
    if isinstance(number, int):
        return str(number)
    return np.format_float_positional(float(number) + 0.0, trim="-")  # "0" for -0.0


def is_number(text):
    """Return whether `read_number` accepts a text."""
    try:
        return math.isfinite(read_number(text, ""))
    except ValueError:
        return False


def read_number(value, what):
    """Read a number or its text; raise ValueError, naming `what`, if not a finite float32."""
    try:
        # Unlike most programs, Python accepts 1_000 as a number.
        number = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if _LARGEST < abs(number) < math.inf:
        raise ValueError(f"{what} is {value!r}, too large for float32")
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{what} is {value!r}, expected a number")
    return number
