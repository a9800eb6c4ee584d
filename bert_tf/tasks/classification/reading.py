"""Examples of text classification from files."""

import itertools
import os

import tensorflow as tf

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.rows import BadRows, find_file, part_of
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.classification.columns import find_columns
from bert_tf.tasks.classification.examples import Example, read_label, with_numbers

_DO = {"train": "do_train", "dev": "do_eval", "test": "do_predict"}


class FileSource:
    """The files of a task; `tfds_source.TfdsSource` has the same methods.

    Attributes:
      task: a `glue.TextTask`.
      columns: dict from the splits that were read to their `Columns`.
    """

    def __init__(self, task, data_dir=None, paths=None):
        """Make a source; `paths` has files of "train", "dev" and "test" outside of the folder."""
        self.task, self._data_dir = task, data_dir
        self.columns = {}
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
        examples, self.columns[split] = read_with_columns(
            self.task, self._data_dir, split, path, bad, self._paths.get("train")
        )
        return examples


def read_examples(task, data_dir, split, path=None, bad=None, train=None):
    """Return the list of `Example` of one file of a task; see `read_with_columns`."""
    return read_with_columns(task, data_dir, split, path, bad, train)[0]


def read_with_columns(task, data_dir, split, path=None, bad=None, train=None):
    """Return the list of `Example` of one file of a task, and its `Columns`.

    Args:
      task: a `glue.TextTask`.
      data_dir: the folder of its files.
      split: one of `task.files`. Test examples have no labels.
      path: the file if it is not in `data_dir`. See `tables.find_format` for the formats of custom
        files; those of other tasks are tab-separated, or .csv.
      bad: `BadRows`; None for an error at the first bad row.
      train: the training file if it is not in `data_dir`; the columns of a test file without a
        header line are inferred from it.

    Raises:
      UserError: names file and line of a bad row, or the missing file.
    """
    bad = bad or BadRows()
    path = find_file(split, task.files[split].names, data_dir, path)
    table_format = find_format(path, task.layout)
    rows = tables.read_rows(path, table_format)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path}: the file has no examples")
    columns = task.files[split].columns
    if columns is None:
        number, names, problem = first
        if problem:
            raise UserError(f"{path}, line {number}: {problem}")
        count = _count_train_columns(task, data_dir, train) if split == "test" else None
        has_names = not table_format.is_delimited
        columns = find_columns(path, names, task.layout, split, count, has_names)
    if not columns.header:
        rows = itertools.chain([first], rows)
    examples, empty, surplus = [], BadRows(skip=True), BadRows(skip=True)
    for index, (number, row, problem) in enumerate(rows):
        where = f"{path}, {table_format.unit} {number}"
        try:
            if problem:
                raise ValueError(problem)
            example = _example(task, where, index, row, columns, part_of(split) != "test")
        except ValueError as error:
            bad(f"{where}: {error}")
            continue
        if columns.ignores_surplus and len(row) > columns.width:
            surplus(f"{where}: {len(row)} columns, but the first line has {columns.width}")
        if example is not None and has_text(example, task, bad, empty):
            examples.append(example)
    empty.report("rows with an empty text")
    surplus.report("rows with surplus columns, which are ignored")
    if not examples:
        bad.report()
        language = f" in {columns.language[1]}" if columns.language else ""
        raise UserError(f"{path}: the file has no examples{language}")
    if task.layout:
        _report(path, table_format, columns, examples)
    return examples, columns


def find_format(path, layout):
    """Return the format of a file: by its name if its columns are known, else by its content."""
    if layout is None:
        return tables.format_by_name(path)
    table_format = tables.find_format(path, layout.delimiter, layout.likely_names)
    is_remembered = "delimiter" in layout.remembered
    if layout.delimiter and not is_remembered and not table_format.is_delimited:
        raise UserError(f"`delimiter={layout.delimiter}`, but {path} is {table_format}")
    return table_format


# How many columns and characters of a text the report of a file has.
_MAX_COLUMNS, _MAX_CHARACTERS = 12, 40


def _report(path, table_format, columns, examples):
    """Log what was understood of a file."""
    roles = columns.roles()
    names = [
        f"{columns.name(i)} ({roles[i]})" if i in roles else columns.name(i)
        for i in range(columns.width)
        if i in roles or columns.width <= _MAX_COLUMNS
    ]
    rest = "" if len(names) == columns.width else f" and {columns.width - len(names)} others"
    header = "" if columns.names else "no header line, "
    first = examples[0]
    values = {"text": first.text_a}
    if first.text_b is not None:
        values = {"text_a": first.text_a, "text_b": first.text_b}
    if first.label is not None:
        values["label"] = first.label
    console.info(
        "%s: %s; %scolumns %s%s; %d examples, the first: %s",
        path, table_format, header, ", ".join(names), rest, len(examples),
        ", ".join(f"{name} {_shorten(value)}" for name, value in values.items()),
    )  # fmt: skip


def _shorten(value):
    if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
        value = value[: _MAX_CHARACTERS - 3] + "..."
    return repr(value)


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
    first = path and next(tables.read_rows(path, find_format(path, task.layout)), None)
    return first and len(first[1])


def _example(task, where, index, row, columns, with_label):
    """Return the example of a row, None if it is in another language; ValueError if it is bad."""

    def cell(position, what):
        if not -len(row) <= position < len(row):
            raise ValueError(
                f"{what} is expected in column {position + 1}, but the row has {len(row)}"
            )
        return row[position]

    def text(position, what):
        value = cell(position, what)
        try:
            return tables.as_text(value)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None

    if columns.width and not columns.ignores_surplus and any(row[columns.width :]):
        # For example a comma that should be quoted: what follows it is in the wrong column.
        raise ValueError(f"{len(row)} columns, but the first line has {columns.width}")
    if columns.language and cell(columns.language[0], "language") != columns.language[1]:
        return None
    text_a = text(columns.text_a, "text_a")
    text_b = None if columns.text_b is None else text(columns.text_b, "text_b")
    row_id = str(index) if columns.id is None else text(columns.id, "id")
    label = None
    if with_label:
        positions = columns.label if isinstance(columns.label, tuple) else (columns.label,)
        if task.task_type == "multi_label" and isinstance(cell(positions[0], "label"), list):
            label = tuple(map(tables.as_text, cell(positions[0], "label")))
        else:
            label = read_label(task, [text(position, "label") for position in positions])
    names = task.layout.numbers if task.layout else ()
    cells = [text(position, name) for position, name in zip(columns.numbers, names, strict=True)]
    return with_numbers(Example(where, text_a, text_b, label, row_id), task.layout, cells)
