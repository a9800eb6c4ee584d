"""`Predictor`, which answers rows of text with a SavedModel, and the base class of `Client`.

Importing this module does not import TensorFlow.
"""

import contextlib
import itertools
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError, check_unicode, counted, reason
from bert_tf.io import files, json_files
from bert_tf.serving.answers import answers_class

# Task names in models exported by version 0.1.
_RENAMED_TASK_NAMES = {
    "answers": "question_answering",
    "choice": "multiple_choice",
    "masked_words": "fill_mask",
    "tagging": "token_classification",
    "vectors": "sentence_embedding",
}

METADATA = os.path.join("assets.extra", "model.json")

# The fields of `model.json` that are read.
_FIELDS = {
    "task": str,
    "inputs": list[str],
    "labels?": list[str],
    "numbers?": list[str],
    "columns?": {"text_columns?": list[str]},
}

# Without a batch size, batches have about this many tokens, within the limits on rows. Larger
# batches are no faster; in smaller ones, the overhead of operations dominates.
_MIN_ROWS, _MAX_ROWS = 32, 256
_BATCH_TOKENS = 3000
_CHARACTERS_PER_TOKEN = 4  # on average, in English


class BasePredictor:
    """Answers rows in batches of similar length; subclasses run the model in `_run`.

    Attributes:
      inputs: names of a row's inputs, in the order of a line.
      metadata: the contents of `model.json`.
      answers: the `Answers` class of the task.
      num_numeric_features: length of the input `numbers`, 0 if there is none.
    """

    def __init__(self, inputs, num_numeric_features, metadata, batch_size):
        """See the class; `batch_size` is the maximum number of rows, None for 32 (long) to 256."""
        self.inputs, self.num_numeric_features = tuple(inputs), num_numeric_features
        self.metadata, self._batch_size = metadata, batch_size
        self.answers = answers_class(metadata.get("task"))

    def __call__(self, rows: Sequence[Any], batch_size: int | None = None) -> list[dict]:
        """Answer rows.

        Args:
          rows: list of dicts with a value for each of `inputs`: str or bytes, a list of them for
            "endings", or a list of numbers for "numbers". A model with a single input also takes a
            list of its values.
          batch_size: maximum number of rows in a batch; None for the predictor's default.

        Returns:
          List of dicts for `json.dumps`, one per row.

        Raises:
          UserError: if a row lacks an input, or the outputs do not match the task.
        """
        if isinstance(rows, (str, bytes, dict)):
            raise UserError(
                f"`rows`: found a single {type(rows).__name__}, expected a list of rows"
            )
        rows = [self._as_dict(i, row) for i, row in enumerate(rows)]
        # A batch has rows of similar length, for little padding, and with equally many endings.
        keys = [_sort_key(row) for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        answers: list[Any] = [None] * len(rows)
        for _, group in itertools.groupby(order, lambda i: keys[i][0]):
            for indices in _batches(group, keys, batch_size or self._batch_size):
                columns = {name: [rows[i][name] for i in indices] for name in self.inputs}
                outputs = self._run(columns)
                with self._naming_outputs(outputs):
                    for position, i in enumerate(indices):
                        row = {name: x[position] for name, x in outputs.items()}
                        answers[i] = self.answers.answer(row, self.metadata)
        return answers

    @contextlib.contextmanager
    def _naming_outputs(self, outputs):
        """Raise UserError if the code in this context fails on unexpected outputs."""
        try:
            yield
        except UserError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            found = ", ".join(f"{name} {np.shape(x)}" for name, x in sorted(outputs.items()))
            raise UserError(
                f"found the outputs {found}, expected the outputs of the task "
                f"{self.metadata.get('task')}"
            ) from None

    def _as_dict(self, index, row):
        if isinstance(row, (str, bytes)) and len(self.inputs) == 1:
            row = {self.inputs[0]: row}
        if isinstance(row, dict) and row.keys() >= set(self.inputs):
            for name in self.inputs:
                for text in row[name] if isinstance(row[name], list) else [row[name]]:
                    if isinstance(text, str):
                        check_unicode(text, f"row {index}, {name}")
            return row
        found = ", ".join(map(str, row)) or "nothing" if isinstance(row, dict) else repr(row)[:40]
        text = "a text or " if len(self.inputs) == 1 else ""
        raise UserError(
            f"row {index}: found {found}, expected {text}a dict with {', '.join(self.inputs)}"
        )

    def _run(self, columns):
        """Run the model on a dict of lists of B values; return a dict of arrays (B, ...)."""
        raise NotImplementedError

    def read(self, line: str, as_json: bool = False) -> dict[str, Any]:
        r"""Parse a line as a row.

        Args:
          line: the inputs in order, separated by tabs, with numbers and endings last; without a
            line break.
          as_json: whether the line is a JSON object with the inputs or the columns used for
            training as keys; other keys are ignored.

        Returns:
          Dict with a value for each of `inputs`.

        Raises:
          ValueError: if the line is invalid; the message names the input.
        """
        names = self.inputs
        if as_json:
            try:
                row = json_files.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"invalid JSON ({error.msg})") from None
            row = self._by_input(row)
        else:
            cells: list[Any] = line.split("\t") if len(names) > 1 else [line]
            if names[-1] in ("endings", "numbers") and len(cells) >= len(names):
                last = len(names) - 1
                cells = [*cells[:last], cells[last:]]
            if len(cells) != len(names):
                expected = " <tab> ".join(names)
                raise ValueError(f"found {counted(len(cells), 'input')}, expected {expected}")
            row = dict(zip(names, cells, strict=True))
            if "numbers" in row:
                row["numbers"] = [float(cell) for cell in row["numbers"]]
        return self.check(row)

    def _by_input(self, row):
        names = self.inputs
        if isinstance(row, dict) and row.keys() >= set(names):
            return row
        texts = [name for name in names if name != "numbers"]
        columns = self.metadata.get("columns", {}).get("text_columns", ())
        numbers = self.metadata.get("numbers", ())
        is_complete = isinstance(row, dict) and len(columns) == len(texts)
        if is_complete and row.keys() >= {*columns, *numbers}:
            inputs = {name: row[column] for name, column in zip(texts, columns, strict=True)}
            return {**inputs, "numbers": [row[name] for name in numbers]}
        others = f" (or {', '.join([*columns, *numbers])})" if columns else ""
        raise ValueError(f"expected an object with {', '.join(names)}{others}")

    def check(self, row: Any) -> dict[str, Any]:
        """Return the inputs in `row`; raise ValueError, naming the input, if one is invalid."""
        return {name: self._validate(name, row[name]) for name in self.inputs}

    def _validate(self, name, value):
        if name == "numbers":
            size = self.num_numeric_features
            is_numeric = isinstance(value, list) and all(type(x) in (int, float) for x in value)
            if not is_numeric or len(value) != size:
                raise ValueError(f"numbers: expected a list of {size} finite numbers")
            for number in value:
                if not (abs(number) < sys.float_info.max and math.isfinite(number)):
                    raise ValueError(f"numbers: found {number!r:.20}, expected a finite number")
            return value
        texts = value if name == "endings" else [value]
        if not isinstance(texts, list) or not texts or not all(isinstance(x, str) for x in texts):
            expected = "a list of texts" if name == "endings" else "a text"
            raise ValueError(f"{name}: expected {expected}")
        for text in texts:
            check_unicode(text, name)
        return value


class _LocalPredictor(BasePredictor):
    """Runs a TensorFlow function in this process."""

    def __init__(self, serve, specs, metadata, batch_size):
        self._serve = serve
        self._dtypes = {name: spec.dtype for name, spec in specs.items()}
        num_numeric_features = specs["numbers"].shape[1] if "numbers" in specs else 0
        super().__init__(specs, num_numeric_features, metadata, batch_size)

    def _run(self, columns):
        import tensorflow as tf

        inputs = {name: tf.constant(x, self._dtypes[name]) for name, x in columns.items()}
        return {name: x.numpy() for name, x in self._serve(inputs).items()}


class Predictor(_LocalPredictor):
    """A SavedModel loaded into this process.

    >>> predictor = Predictor("/tmp/mrpc_model")
    >>> predictor([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": ..., "1": ...}}]
    """

    def __init__(self, path: str | os.PathLike, batch_size: int | None = None):
        """Load a folder written by `export` (its newest version) or the folder of a version.

        `batch_size` is the maximum number of rows in a batch; None for 32 (long) to 256 (short).

        Raises:
          UserError: if the model does not exist or does not take text.
        """
        import tensorflow as tf

        from bert_tf.tokenization.graph import tensorflow_text

        self.path = _newest_version(path)
        metadata = read_metadata(os.path.join(self.path, METADATA))
        if not metadata["inputs"]:
            raise UserError(
                f"`model`: found id inputs in {self.path}, expected text; export it with "
                "`inputs=text`"
            )
        tensorflow_text()  # registers the operations of the graph
        try:
            self._model = tf.saved_model.load(self.path)
            serve = self._model.signatures["serving_default"]
        # Loading a damaged model raises exceptions of many classes.
        except Exception as error:
            raise UserError(f"`model`: {self.path} cannot be loaded ({reason(error)})") from None
        specs = serve.structured_input_signature[1]
        if specs.keys() != set(metadata["inputs"]):
            raise UserError(
                f"`model`: found the inputs {', '.join(sorted(specs))} in {self.path}, expected "
                f"{', '.join(metadata['inputs'])} as in its model.json"
            )
        check_outputs(f"`model`: {self.path}", serve.structured_outputs, metadata)
        specs = {name: specs[name] for name in metadata["inputs"]}
        super().__init__(lambda inputs: serve(**inputs), specs, metadata, batch_size)


class ServablePredictor(_LocalPredictor):
    """A `Servable` with the interface of `Predictor`, without an export."""

    def __init__(self, servable, batch_size=None):
        import tensorflow as tf

        signature = servable.text_signature
        serve = tf.function(servable.serve_text, input_signature=[signature])
        metadata = {**(servable.metadata or {}), "task": servable.task}
        super().__init__(serve, signature, metadata, batch_size)


def read_metadata(path: str) -> dict[str, Any]:
    """Return the contents of an exported model's `model.json`, with the current task name."""
    metadata = json_files.read(path, _FIELDS, "export_model.py")
    return {**metadata, "task": _RENAMED_TASK_NAMES.get(metadata["task"], metadata["task"])}


def check_outputs(name, outputs, metadata):
    """Raise UserError if the model `name` lacks outputs of the task in its metadata."""
    expected = answers_class(metadata["task"]).outputs
    if missing := [output for output in expected if output not in outputs]:
        raise UserError(
            f"{name} has the outputs {', '.join(sorted(outputs))}, expected {', '.join(missing)} "
            f"for the task {metadata['task']}"
        )


def list_versions(folder):
    names = (name.rstrip("/") for name in files.system(folder).listdir(folder))
    return [name for name in names if name.isdecimal()]


def is_exported(path):
    """Return whether a path is a folder of exported versions, or a version's folder."""
    system = files.system(path)
    is_version = system.exists(os.path.join(path, "saved_model.pb"))
    return is_version or (system.isdir(path) and bool(list_versions(path)))


def _newest_version(path):
    """Return the folder of the newest version in `path`, or `path` if it is a version's folder."""
    system = files.system(path)
    if system.exists(os.path.join(path, "saved_model.pb")):
        return path
    versions = list_versions(path) if system.isdir(path) else []
    if not versions:
        raise UserError(
            f"`model`: found neither an exported model nor the configuration of a model in {path}"
        )
    return os.path.join(path, max(versions, key=int))


def _sort_key(row):
    endings = row.get("endings", ())
    texts = [value for value in row.values() if isinstance(value, (str, bytes))]
    return len(endings), sum(map(len, texts)) + sum(map(len, endings))


def _batches(indices, keys, batch_size):
    """Yield batches of row indices, which are sorted by `_sort_key`."""
    indices = iter(indices)
    if batch_size:
        while batch := list(itertools.islice(indices, min(batch_size, sys.maxsize))):
            yield batch
        return
    batch: list[int] = []
    for index in indices:
        num_endings, length = keys[index]
        num_tokens = max(num_endings, 1) * (length / _CHARACTERS_PER_TOKEN + 3)
        limit = min(max(_MIN_ROWS, _BATCH_TOKENS / num_tokens), _MAX_ROWS)
        if len(batch) + 1 > limit:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
