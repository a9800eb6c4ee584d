"""Examples of text classification from files."""

import itertools
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.base import part_of
from bert_tf.tasks.classification.columns import find_columns
from bert_tf.tasks.classification.examples import Example, read_label, with_numbers
from bert_tf.tasks.rows import BadRows, find_file, read_rows

_DO = {"train": "do_train", "dev": "do_eval", "test": "do_predict"}


class FileSource:
    """The files of a task; `tfds_source.TfdsSource` has the same methods.

    Attributes:
      task: a `glue.TextTask`.
    """

    def __init__(self, task, data_dir=None, paths=None):
        """Make a source; `paths` has files of "train", "dev" and "test" outside of the folder."""
        self.task, self._data_dir = task, data_dir
        self._paths = {part: path for part, path in (paths or {}).items() if path}

    def splits(self, part):
        """Return the existing splits of "train", "dev" or "test"; UserError if there is none."""
        splits = [split for split in self.task.files if part_of(split) == part]
        if not splits:
            raise UserError(
                f"`{_DO[part]}`: this task has no {part} split, only {', '.join(self.task.files)}"
            )
        if part in self._paths:
            files.require(self._paths[part], f"{part}_file")
            return splits[:1]
        return [split for split in splits if self._find(split)]

    def _find(self, split):
        """Return the path of a split's file; None if an optional one is missing."""
        file = self.task.files[split]
        path = os.path.join(self._data_dir or "", file.names[0])
        if file.optional and not tf.io.gfile.exists(path):
            console.info("%s does not exist: this split is skipped", path)
            return None
        return find_file(split, file.names, self._data_dir)

    def read(self, split, bad=None):
        """Read the examples of a split, as `read_examples` does."""
        path = self._paths.get(part_of(split))
        return read_examples(self.task, self._data_dir, split, path, bad, self._paths.get("train"))


def read_examples(task, data_dir, split, path=None, bad=None, train=None):
    """Return the list of `Example` of one file of a task.

    Args:
      task: a `glue.TextTask`.
      data_dir: the folder of its files.
      split: one of `task.files`. Test examples have no labels.
      path: the file if it is not in `data_dir`; see `rows.read_rows` for the formats.
      bad: `BadRows`; None for an error at the first bad row.
      train: the training file if it is not in `data_dir`; the columns of a test file without a
        header line are inferred from it.

    Raises:
      UserError: names file and line of a bad row, or the missing file.
    """
    bad = bad or BadRows()
    path = find_file(split, task.files[split].names, data_dir, path)
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path}: the file has no examples")
    columns = task.files[split].columns
    if columns is None:
        number, names, problem = first
        if problem:
            raise UserError(f"{path}, line {number}: {problem}")
        count = _count_train_columns(task, data_dir, train) if split == "test" else None
        columns = find_columns(path, names, task.layout, split, count)
    if not columns.header:
        rows = itertools.chain([first], rows)
    examples, empty = [], BadRows(skip=True)
    for index, (number, row, problem) in enumerate(rows):
        where = f"{path}, line {number}"
        try:
            if problem:
                raise ValueError(problem)
            example = _example(task, where, index, row, columns, part_of(split) != "test")
        except ValueError as error:
            bad(f"{where}: {error}")
            continue
        if example is not None and has_text(example, task, bad, empty):
            examples.append(example)
    empty.report("rows with an empty text")
    if not examples:
        bad.report()
        language = f" in {columns.language[1]}" if columns.language else ""
        raise UserError(f"{path}: the file has no examples{language}")
    return examples


def has_text(example, task, bad, empty):
    """Return whether the texts of an example can be used.

    A blank text makes a bad row. GLUE's files have some, which the release uses, so there they are
    only counted in `empty`.
    """
    texts = {"text_a": example.text_a, "text_b": example.text_b}
    if example.text_b is None:
        texts = {"text": example.text_a}
    name = next((name for name, text in texts.items() if not text.strip()), None)
    if name:
        (bad if task.layout else empty)(f"{example.where}: {name} is empty")
    return not (name and task.layout)


def _count_train_columns(task, data_dir, train):
    """Return the number of columns of the training file; None if it does not exist."""
    names = task.files["train"].names if data_dir else ()
    paths = [train] if train else [os.path.join(data_dir, name) for name in names]
    path = next((path for path in paths if tf.io.gfile.exists(path)), None)
    first = path and next(read_rows(path), None)
    return first and len(first[1])


def _example(task, where, index, row, columns, with_label):
    """Return the example of a row, None if it is in another language; ValueError if it is bad."""

    def cell(position, what):
        if not -len(row) <= position < len(row):
            raise ValueError(
                f"{what} is expected in column {position + 1}, but the row has {len(row)}"
            )
        return row[position]

    if columns.width and any(row[columns.width :]):
        # For example a comma that should be quoted: what follows it is in the wrong column.
        raise ValueError(f"{len(row)} columns, but the first line has {columns.width}")
    if columns.language and cell(columns.language[0], "language") != columns.language[1]:
        return None
    text_a = cell(columns.text_a, "text_a")
    text_b = None if columns.text_b is None else cell(columns.text_b, "text_b")
    row_id = str(index) if columns.id is None else cell(columns.id, "id")
    label = None
    if with_label:
        positions = columns.label if isinstance(columns.label, tuple) else (columns.label,)
        label = read_label(task, [cell(position, "label") for position in positions])
    names = task.layout.numbers if task.layout else ()
    cells = [cell(position, name) for position, name in zip(columns.numbers, names, strict=True)]
    return with_numbers(Example(where, text_a, text_b, label, row_id), task.layout, cells)
