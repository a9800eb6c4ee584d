"""`Predictor`, which answers rows of text with an exported model; without TensorFlow for ONNX."""

import importlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

from bert_tf.configs.train import BatchConfig
from bert_tf.data import tables
from bert_tf.data.batching import BATCH_TOKENS, run_in_order
from bert_tf.errors import UserError, check_unicode, counted
from bert_tf.io import files, json_files
from bert_tf.serving.answers import ANSWERS, Answer

ONNX_FILE, METADATA = "model.onnx", "model.json"
# The file of a version's folder with the model -> the folder of its other files.
FORMATS = {"saved_model.pb": "assets.extra", ONNX_FILE: ""}

# The fields of `model.json` that are read.
_FIELDS = {
    "task": str,
    "inputs": list[str],
    "labels?": list[str],
    "numbers?": list[str],
    "columns?": {"text_columns?": list[str]},
}

# The limits on the rows of a batch, without a batch size.
_MIN_ROWS, _MAX_ROWS = 32, 256
_CHARACTERS_PER_TOKEN = 4  # on average, in English


class Predictor:
    """Answers rows of text with an exported model or a `Servable`, in batches of similar length.

    >>> predictor = Predictor("/tmp/mrpc_model")
    >>> predictor([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": ..., "1": ...}}]

    Attributes:
      inputs: names of a row's inputs, in the order of a line.
      metadata: the contents of `model.json`.
      answer: function from the outputs of a row and `metadata` to the answer.
      table_columns: function from an answer to the columns that it adds to a row of a table.
    """

    def __init__(self, model: Any, batch_size: int | None = None, num_threads: int | None = None):
        """Load or trace a model.

        Args:
          model: a folder written by `export` (its newest version), the folder of a version, or a
            `Servable`.
          batch_size: maximum number of rows in a batch; None for 32 (long) to 256 (short).
          num_threads: number of threads that ONNX Runtime computes a batch with; None for one per
            core.

        Raises:
          UserError: if the model does not exist or does not take text.
        """
        if isinstance(model, (str, os.PathLike)):
            self._load(model, num_threads)
        else:
            from bert_tf.serving.saved_model import trace

            self.metadata = {**(model.metadata or {}), "task": model.task}
            self._model = trace(model, num_threads)
        self.inputs, self._batch_size = tuple(self._model.inputs), batch_size
        answer = ANSWERS.get(self.metadata["task"], Answer())
        self.answer, self.table_columns = answer.of_outputs, answer.table_columns

    def _load(self, path, num_threads):
        self.path, file = find_version(files.expand_home(path))
        metadata_file = os.path.join(self.path, FORMATS.get(file, ""), METADATA)
        if not (file and files.exists(metadata_file)):
            raise UserError(
                f"`model`: found no model written by export_model.py in {self.path}; "
                "`bert-tf predict` and the classes, such as TextClassifier, also load a run"
            )
        self.metadata = json_files.read(metadata_file, _FIELDS, "export_model.py")
        task, is_onnx = self.metadata["task"], file == ONNX_FILE
        if not self.metadata["inputs"]:
            advice = "export it as a SavedModel" if is_onnx else "export it with inputs=text"
            raise UserError(f"`model`: {self.path}, a model for {task}, takes token ids; {advice}")
        module = "onnx_model" if is_onnx else "saved_model"
        module = importlib.import_module(f"bert_tf.serving.{module}")
        self._model = module.load(self.path, self.metadata, num_threads)

    def __call__(self, rows: Any, batch_size: int | None = None, output: str | None = None) -> list:
        """Answer rows.

        Args:
          rows: list of dicts with a value for each of `inputs`: a text, a list of texts for
            "endings", or a list of numbers for "numbers". The columns used for training may replace
            the inputs. A single dict, a dict of lists, a DataFrame or another table of `fit`; for a
            model with a single input also a list of its values.
          batch_size: maximum number of rows in a batch; None for the predictor's default.
          output: the name of an output of the model to return instead of answers.

        Returns:
          List of dicts for `json.dumps`, or of arrays of the `output`, one per row.

        Raises:
          UserError: if a row is invalid; the message has its index and names the input.
        """
        batch_size = self._batch_size if batch_size is None else batch_size
        if batch_size is not None:
            BatchConfig(batch_size)  # checks it
        if not isinstance(rows, (list, Iterator)):
            from bert_tf.data.containers import list_rows  # imports TensorFlow

            rows = list_rows(rows, "rows")
        rows = list(itertools.starmap(self._check_row, enumerate(rows)))

        def serve_batch(batch):
            columns = {name: [row[name] for row in batch] for name in self.inputs}
            outputs = self._model(columns, is_single=len(rows) == 1)
            if output and output not in outputs:
                raise UserError(f"`output={output}`: expected one of {', '.join(outputs)}")
            return {output: outputs[output]} if output else outputs

        results = run_in_order(
            rows, serve_batch, _sort_key, len(rows), BATCH_TOKENS, batch_size or _MIN_ROWS,
            batch_size or _MAX_ROWS,
        )  # fmt: skip
        return [x[output] if output else self.answer(x, self.metadata) for _, x in results]

    def _check_row(self, index, row):
        try:
            row = tables.to_python(row)
            if len(self.inputs) == 1 and not isinstance(row, dict):
                row = {self.inputs[0]: row}
            return self.check(self._by_input(row))
        except ValueError as error:
            raise UserError(f"`rows`: row {index}: {error}") from None

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
            return self.check(self._by_input(json_files.loads(line)))
        cells: list[Any] = line.split("\t") if len(names) > 1 else [line]
        *_, last = self._model.inputs.values()
        if last is not str and len(cells) >= len(names):
            cells[len(names) - 1 :] = [cells[len(names) - 1 :]]
        if len(cells) != len(names):
            expected = " <tab> ".join(names)
            raise ValueError(f"found {counted(len(cells), 'input')}, expected {expected}")
        row = dict(zip(names, cells, strict=True))
        for name in self._numeric_inputs:
            row[name] = [float(cell) for cell in row[name]]
        return self.check(row)

    @property
    def _numeric_inputs(self):
        return [name for name, kind in self._model.inputs.items() if isinstance(kind, int)]

    def _by_input(self, row):
        names = self.inputs
        if isinstance(row, dict) and row.keys() >= set(names):
            return row
        texts = [name for name in names if name not in self._numeric_inputs]
        columns = self.metadata.get("columns", {}).get("text_columns") or texts
        numbers = self.metadata.get("numbers", ())
        others = [*columns, *numbers]
        if isinstance(row, dict) and row.keys() >= {*others} and len(columns) == len(texts):
            inputs = {name: row[column] for name, column in zip(texts, columns, strict=True)}
            values = [row[name] for name in numbers]
            return inputs | dict.fromkeys(self._numeric_inputs, values)
        others = f" (or {', '.join(others)})" if {*others} != {*names} else ""
        raise ValueError(f"expected an object with {', '.join(names)}{others}")

    def check(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs in `row`; raise ValueError, naming the input, if one is invalid."""
        for name, kind in self._model.inputs.items():
            value = row[name]
            if isinstance(kind, int):
                if not json_files.is_valid(value, list[json_files.Finite]) or len(value) != kind:
                    raise ValueError(f"{name}: found {value!r:.40}, expected {kind} finite numbers")
                continue
            texts = [value] if kind is str else value
            if not texts or not json_files.is_valid(texts, list[str]):
                expected = "a text" if kind is str else "a list of texts"
                raise ValueError(f"{name}: found {value!r:.40}, expected {expected}")
            for text in texts:
                check_unicode(text, name)
        return {name: row[name] for name in self.inputs}


def list_versions(folder):
    names = files.list_folder(folder) if files.is_folder(folder) else []
    return [name for name in names if name.isdecimal()]


def find_version(path):
    """Return (folder, name of the model's file) of a version, `path` or its newest one.

    Returns (`path`, None) if it contains no model.
    """
    newest = sorted(list_versions(path), key=int)[-1:]
    for folder in (path, *(os.path.join(path, name) for name in newest)):
        for name in FORMATS:
            # Other programs also write model.onnx.
            has_metadata = name != ONNX_FILE or files.exists(os.path.join(folder, METADATA))
            if has_metadata and files.exists(os.path.join(folder, name)):
                return folder, name
    return path, None


def _sort_key(row):
    """Return the number of texts in a list and the approximate number of tokens."""
    lists = (value for value in row.values() if isinstance(value, list))
    endings = next((value for value in lists if isinstance(value[0], str)), ())
    texts = [*(value for value in row.values() if isinstance(value, str)), *endings]
    num_tokens = sum(map(len, texts)) / _CHARACTERS_PER_TOKEN + 3
    return len(endings), max(len(endings), 1) * num_tokens
