"""Rows of text in, answers as JSON has them out, whoever runs the model.

It does without TensorFlow, so that a client of a server does too.
"""

import json
import math
import os
import sys

import numpy as np

from bert_tf import files
from bert_tf.errors import UserError, reason

# What a served model says of itself, beside its weights.
METADATA = os.path.join("assets.extra", "model.json")

# The least probability of a label that is given, where there may be several.
_LEAST = 0.5


# The outputs that an answer is made of; those of other tasks are given as they are.
OUTPUTS = {
    "classification": ("probabilities",),
    "multi_label": ("probabilities",),
    "tagging": ("entity", "label", "start", "end", "score"),
    "choice": ("probabilities",),
    "encoder": ("tokens", "sequence_output"),
    "masked_words": ("words", "probabilities"),
}


class BasePredictor:
    """Answers rows in batches of about the same length; `_run` of a subclass runs the model.

    Attributes:
      inputs: the names of what a row has, in order.
      num_numbers: how many "numbers" a row has, if it has any.
    """

    def __init__(self, inputs, num_numbers, about, batch_size):
        """Takes what is known of the model.

        Args:
          inputs: names, in the order of a line.
          num_numbers: as the attribute.
          about: dict, as in `model.json`: `task`, and `labels` where it has any.
          batch_size: the most rows to run together.
        """
        self.inputs, self.num_numbers = tuple(inputs), num_numbers
        self._about, self._batch_size = about, batch_size

    def __call__(self, rows):
        """Answers rows.

        Args:
          rows: list of dicts with a value for each of `inputs`: str or bytes, for "endings" a
            list of them, for "numbers" a list of numbers.

        Returns:
          List of dicts, as JSON has them, one a row.
        """
        # Rows of about the same length together, so that there is little padding.
        order = sorted(range(len(rows)), key=lambda i: _size(rows[i]))
        answers = [None] * len(rows)
        for start, end in self._batches([_size(rows[i]) for i in order]):
            places = order[start:end]
            found = self._run({name: [rows[i][name] for i in places] for name in self.inputs})
            for number, i in enumerate(places):
                answers[i] = self._answer({name: x[number] for name, x in found.items()})
        return answers

    def _run(self, columns):
        """Runs the model: dict of lists, B values of each input -> dict of arrays (B, ...)."""
        raise NotImplementedError

    def _batches(self, sizes):
        """Where batches of sorted rows begin and end: rows with as many endings go together."""
        start = 0
        while start < len(sizes):
            end = start + 1
            while (
                end < min(len(sizes), start + self._batch_size) and sizes[end][0] == sizes[start][0]
            ):
                end += 1
            yield start, end
            start = end

    def _answer(self, found):
        task, labels = self._about.get("task"), self._about.get("labels", ())
        if task in ("classification", "multi_label"):
            if len(labels) != len(found["probabilities"]):
                raise UserError(
                    f"the model has {len(found['probabilities'])} labels, and its model.json "
                    f"{len(labels)}"
                )
            chances = {x: _round(p) for x, p in zip(labels, found["probabilities"], strict=True)}
            if task == "classification":
                best = {"label": labels[int(found["probabilities"].argmax())]}
            else:
                best = {"labels": [label for label, p in chances.items() if p >= _LEAST]}
            return {**best, "probabilities": chances}
        if task == "tagging":
            names = OUTPUTS[task]
            columns = (_plain(found[name]) for name in names)
            rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
            return {"entities": [row for row in rows if row["start"] >= 0]}
        if task == "choice":
            return {"choice": int(found["probabilities"].argmax()),
                    "probabilities": _plain(found["probabilities"])}  # fmt: skip
        # What stands behind is the padding of the batch.
        if task == "encoder":
            size = int(np.flatnonzero(found["tokens"])[-1]) + 1
            found |= {name: found[name][:size] for name in ("sequence_output", "tokens")}
        if task == "masked_words":
            # By REST an output without masks has no third axis.
            size = sum(bool(best[0] > 0) for best in found["probabilities"])
            found = {name: value[:size] for name, value in found.items()}
        return {name: _plain(value) for name, value in sorted(found.items())}

    def read(self, line, as_json=False):
        r"""The row that a line is.

        Args:
          line: the inputs between tabs, in their order, numbers and endings last; without its end.
          as_json: whether it is an object by their names instead.

        Raises:
          ValueError: it says what is wrong with the line.
        """
        names = self.inputs
        if as_json:
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"no JSON ({getattr(error, 'msg', 'too deep')})") from None
            if not isinstance(row, dict) or row.keys() != set(names):
                raise ValueError(f"an object with {', '.join(names)} was expected")
        else:
            cells = line.split("\t") if len(names) > 1 else [line]
            if names[-1] in ("endings", "numbers") and len(cells) >= len(names):
                split = len(names) - 1
                cells = [*cells[:split], cells[split:]]
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} inputs, {' <tab> '.join(names)} was expected")
            row = dict(zip(names, cells, strict=True))
            if "numbers" in row:
                row["numbers"] = [float(cell) for cell in row["numbers"]]
        return {name: self._checked(name, row[name]) for name in names}

    def _checked(self, name, value):
        """A value, if it is of the kind that the input takes."""
        if name == "numbers":
            is_number = isinstance(value, list) and all(type(x) in (int, float) for x in value)
            if not is_number or len(value) != self.num_numbers:
                raise ValueError(f"numbers: {self.num_numbers} numbers were expected")
            if not all(abs(x) < sys.float_info.max and math.isfinite(x) for x in value):
                raise ValueError("numbers: one is not finite")
            return value
        texts = value if name == "endings" else [value]
        if not isinstance(texts, list) or not texts or not all(isinstance(x, str) for x in texts):
            kind = "a list of texts" if name == "endings" else "a text"
            raise ValueError(f"{name}: {kind} was expected")
        for text in texts:
            text.encode()  # half of a pair is no character: a UnicodeEncodeError is a ValueError
        return value


def read_metadata(path):
    """What a model says of itself: its `model.json`.

    Raises:
      UserError: if it is none.
    """
    try:
        about = json.loads(files.read_text(path))
        if isinstance(about["task"], str) and isinstance(about["inputs"], list):
            return about
        error = "task and inputs were expected"
    except (ValueError, LookupError, TypeError, RecursionError) as found:
        if isinstance(found, UserError):
            raise
        error = reason(found)
    raise UserError(f"{path}: not of our making ({error})")


def _size(row):
    """(number of endings, length of all text) of a row, to sort by."""
    endings = row.get("endings", ())
    texts = [value for value in row.values() if isinstance(value, (str, bytes))]
    return len(endings), sum(map(len, texts)) + sum(map(len, endings))


def _round(value):
    return float(np.format_float_positional(value, precision=6, fractional=False))


def _plain(value):
    """An array or a scalar as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [_plain(x) for x in value]
    if isinstance(value, np.floating):
        return _round(value)
    return value.item() if isinstance(value, np.generic) else value
