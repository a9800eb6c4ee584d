"""Read text classification examples from files."""

import itertools
import os
from collections import Counter

import tensorflow as tf

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.columns import find_columns, get_cell, with_header
from bert_tf.data.rows import BadRows, base_split, find_file
from bert_tf.errors import UserError, counted
from bert_tf.io import files
from bert_tf.tasks.classification.examples import make_example, read_label

_DO_FLAGS = {"train": "do_train", "dev": "do_eval", "test": "do_predict"}


class FileSource:
    """The files of a dataset; `columns` and `files` describe the splits read so far."""

    def __init__(self, dataset, data_dir=None, paths=None):
        """Create a source; `paths` is a dict of files for "train", "dev" or "test", or None."""
        self.dataset, self._data_dir = dataset, data_dir
        self.columns, self.files = {}, []
        self._paths = {base: path for base, path in (paths or {}).items() if path}

    def splits(self, base):
        """Return the splits of "train", "dev" or "test" that exist; UserError if there are none."""
        splits = [split for split in self.dataset.files if base_split(split) == base]
        if not splits:
            raise UserError(
                f"`{_DO_FLAGS[base]}`: this task has no {base} split, only "
                f"{', '.join(self.dataset.files)}"
            )
        if base in self._paths:
            files.require(self._paths[base], f"{base}_file")
            return splits[:1]
        return [split for split in splits if self._exists(split)]

    def _exists(self, split):
        """Return whether the file of a split exists; raise UserError if a required one does not."""
        file = self.dataset.files[split]
        path = os.path.join(self._data_dir or "", file.names[0])
        if file.optional and not tf.io.gfile.exists(path):
            console.info("%s does not exist: this split is skipped", path)
            return False
        return bool(find_file(split, file.names, self._data_dir))

    def read(self, split, bad=None):
        """Return the list of `Example` of a split; `bad`, a `BadRows`, collects invalid rows."""
        dataset, path = self.dataset, self._paths.get(base_split(split))
        path = find_file(split, dataset.files[split].names, self._data_dir, path)
        self.files.append(path)
        table_format = _find_format(path, dataset.layout)
        rows = tables.read_rows(path, table_format)
        first = next(rows, None)
        if first is None:
            raise UserError(f"{path}: the file has no examples")
        columns = dataset.files[split].columns
        if columns is None:
            columns = self._find_columns(path, table_format, first, split)
            if columns.labels and not columns.header and dataset.layout.header == "auto":
                columns = self._with_header(path, table_format, columns, first[1])
        if not columns.header:
            rows = itertools.chain([first], rows)
        self.columns[split] = columns
        surplus, quoted = BadRows(skip=True), BadRows(skip=True)
        has_quotes = dataset.layout and table_format.delimiter == "\t"

        def make(where, index, row):
            example = _example(dataset, where, index, *row, columns, base_split(split) != "test")
            if has_quotes and any(map(_is_quoted, example.texts().values())):
                quoted(where)
            if columns.ignores_surplus and len(row[0]) > columns.width:
                surplus(
                    f"{where}: found {len(row[0])} columns, expected {columns.width} as in the "
                    "first line"
                )
            return example

        places = ((f"{path}, {table_format.unit} {number}", row) for number, *row in rows)
        language = f" in {columns.language[1]}" if columns.language else ""
        examples = collect_examples(
            dataset, places, make, bad, f"{path}: the file has no examples{language}"
        )
        surplus.report("rows with extra columns, which are ignored")
        if dataset.layout:
            quoted.report(
                "texts in quotes (tab-separated files keep quotes; use .csv to remove them)"
            )
            _report(path, table_format, columns, examples)
        return examples

    def _find_columns(self, path, table_format, first, split):
        number, names, problem = first
        if problem:
            raise UserError(f"{path}, line {number}: {problem}")
        layout, has_names = self.dataset.layout, table_format.has_names
        count = self._count_train_columns() if split == "test" else None
        return find_columns(path, names, layout, split, count, has_names)

    def _with_header(self, path, table_format, columns, first):
        """Treat the first row as a header if its label cell suggests so."""
        position = columns.labels[0]
        if len(first) <= position:
            return columns
        # Read the file twice: all its rows may take much more memory than the examples.
        rows = tables.read_rows(path, table_format)
        cells = (row[position] for _, row, _ in rows if len(row) > position)
        if self.dataset.task_type == "multi_label":
            separator = self.dataset.layout.separator
            cells = itertools.chain.from_iterable(cell.split(separator) for cell in cells)
        labels = Counter(map(str.strip, cells))
        train = self.columns.get("train")
        return with_header(path, columns, first, labels, train.names if train else ())

    def _count_train_columns(self):
        names = self.dataset.files["train"].names if self._data_dir else ()
        paths = [os.path.join(self._data_dir, name) for name in names]
        paths = [self._paths["train"]] if "train" in self._paths else paths
        path = next((path for path in paths if tf.io.gfile.exists(path)), None)
        first = path and next(tables.read_rows(path, _find_format(path, self.dataset.layout)), None)
        return first and len(first[1])


def read_examples(dataset, data_dir, split, path=None, bad=None):
    """Read a split of a dataset as a list of `Example`, from `data_dir` unless `path` is given."""
    return FileSource(dataset, data_dir, {base_split(split): path}).read(split, bad)


def collect_examples(dataset, rows, make, bad, error):
    """Convert rows to `Example`s. As in the release, a text may be blank in GLUE's files."""
    bad, empty = bad or BadRows(), BadRows(skip=True)

    def checked(where, index, row):
        example = make(where, index, row)
        texts = example.texts() if example else {}
        blank = next((name for name, text in texts.items() if not text.strip()), None)
        if blank and dataset.layout:
            raise ValueError(f"{blank} is empty")
        if blank:
            empty(f"{where}: {blank} is empty")
        return example

    examples = bad.collect(rows, checked)
    empty.report("rows with an empty text")
    if not examples:
        bad.report()
        raise UserError(error)
    return examples


def _find_format(path, layout):
    """Return the format of a file: from its name if the columns are known, else its content."""
    if layout is None:
        return tables.format_by_name(path)
    table_format = tables.find_format(path, layout.delimiter, layout.likely_names)
    is_restored = "delimiter" in layout.restored
    if layout.delimiter and not is_restored and not table_format.is_delimited:
        raise UserError(
            f"`delimiter={layout.delimiter}`: {path} is {table_format}, expected delimited text"
        )
    return table_format


# Limits of the log line about a file: number of columns, and number of characters per text.
_MAX_COLUMNS, _MAX_CHARACTERS = 12, 40


def _report(path, table_format, columns, examples):
    roles = columns.roles()
    names = [
        f"{columns.name(i)} ({roles[i]})" if i in roles else columns.name(i)
        for i in range(columns.width)
        if i in roles or columns.width <= _MAX_COLUMNS
    ]
    rest = "" if len(names) == columns.width else f" and {columns.width - len(names)} others"
    header = "" if columns.names else "no header line, "
    first = examples[0]
    values = first.texts() if first.label is None else {**first.texts(), "label": first.label}
    console.info(
        "%s: %s; %scolumns %s%s; %d examples, the first: %s",
        path, table_format, header, ", ".join(names), rest, len(examples),
        ", ".join(f"{name} {_shorten(value)}" for name, value in values.items()),
    )  # fmt: skip


def _shorten(value):
    if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
        value = value[: _MAX_CHARACTERS - 3] + "..."
    return repr(value)


def _is_quoted(text):
    """Return whether a text is quoted as in CSV files, with doubled quotes in it."""
    return text[:1] == text[-1:] == '"' and '""' in text[1:-1]


def _example(dataset, where, index, row, problem, columns, with_label):
    """Return the example of a row, None for other languages; raise ValueError if it is invalid."""
    if problem:
        raise ValueError(problem)

    def text(position, what):
        value = get_cell(row, position, what)
        try:
            return tables.as_text(value)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None

    if columns.width and not columns.ignores_surplus and any(row[columns.width :]):
        # For example, an unquoted comma moves the values after it to the wrong columns.
        raise ValueError(
            f"found {counted(len(row), 'column')}, expected {columns.width} as in the first line"
        )
    if columns.language and get_cell(row, columns.language[0], "language") != columns.language[1]:
        return None
    texts = list(map(text, columns.texts, ("text_a", "text_b")))
    row_id = str(index) if columns.id is None else text(columns.id, "id")
    label = None
    if with_label:
        labels = get_cell(row, columns.labels[0], "label")
        if dataset.task_type == "multi_label" and isinstance(labels, list):
            label = tuple(map(tables.as_text, labels))
        elif isinstance(labels, list):
            raise ValueError("label: a list of labels requires `task_type=multi_label`")
        else:
            label = read_label(dataset, [text(position, "label") for position in columns.labels])
    names = dataset.layout.numbers if dataset.layout else ()
    cells = [text(position, name) for position, name in zip(columns.numbers, names, strict=True)]
    return make_example(where, texts, label, row_id, dataset.layout, cells)
