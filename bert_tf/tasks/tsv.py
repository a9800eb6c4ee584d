"""Examples of text classification from tab-separated and comma-separated files."""

import csv
import dataclasses
import itertools
import os
import re
import sys

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError, reason
from bert_tf.tasks.columns import find_columns
from bert_tf.tasks.glue import part_of
from bert_tf.tasks.labels import read_label, read_number
from bert_tf.tasks.numbers import as_words


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts and, outside a test set, their label; `where` is file and line.

    `label` is a str, of a regression a float, of several labels a tuple of str. `id` is that of the
    data, or the number of the row from 0. `numbers` are those beside the text.
    """

    where: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple | None = None
    id: str | None = None
    numbers: tuple = ()


class BadRows:
    """What becomes of rows that cannot be used: the first is an error, or all are counted.

    >>> bad = BadRows(skip=True)
    >>> bad("dev.tsv, line 3: the label is empty")
    >>> bad.count, bad.first
    """

    def __init__(self, skip=False):
        self.skip = skip
        self.count, self.first = 0, None

    def __call__(self, message):
        if not self.skip:
            raise UserError(f"{message} (`skip_bad_rows` leaves such rows out)")
        self.count += 1
        self.first = self.first or message

    def tell(self, what="bad rows left out"):
        """Says how many there were, if any."""
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


class _BadRow(Exception):
    """What is wrong with a row, without its place."""


def find_file(task, data_dir, split):
    """The path of a split's file in `data_dir`; None if an optional one is not there."""
    if not data_dir:
        raise UserError(f"`data_dir` or --{part_of(split)}_file must be given")
    file = task.files[split]
    paths = [os.path.join(data_dir, name) for name in file.names]
    for path in paths:
        if tf.io.gfile.exists(path):
            return files.require(path, "data_dir")
    if file.optional:
        console.info("there is no %s, so that set is left out", paths[0])
        return None
    if len(paths) > 1:
        raise UserError(f"`data_dir`: there is none of {', '.join(file.names)} in {data_dir}")
    return files.require(paths[0], "data_dir")


def read_examples(task, data_dir, split, path=None, bad=None, train=None):
    """Reads one file of a task.

    Args:
      task: a `glue.TextTask`.
      data_dir: the folder of its files.
      split: one of `task.files`. Test examples come without labels.
      path: the file if it is not that of `data_dir`. One that ends in .csv is comma-separated, with
        quotes; all others are tab-separated, and quotes in them are text.
      bad: `BadRows`; None for an error at the first one.
      train: the training file if it is not that of `data_dir`; a test file without a header line
        is understood by it.

    Returns:
      List of `Example`.

    Raises:
      UserError: names file and line of a bad row, or the missing file.
    """
    bad = bad or BadRows()
    path = path or find_file(task, data_dir, split)
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path}: there is not a single example in it")
    columns = task.files[split].columns
    if columns is None:
        if first[2]:
            raise UserError(f"{path}, line {first[0]}: {first[2]}")
        count = _train_columns(task, data_dir, train) if split == "test" else None
        columns = find_columns(path, first[1], task.layout, split, count)
    if not columns.header:
        rows = itertools.chain([first], rows)
    examples, empty = [], BadRows(skip=True)
    for index, (number, row, problem) in enumerate(rows):
        where = f"{path}, line {number}"
        try:
            if problem:
                raise _BadRow(problem)
            example = _example(task, where, index, row, columns, part_of(split) != "test")
        except _BadRow as error:
            bad(f"{where}: {error}")
            continue
        if example is not None and has_text(example, task, bad, empty):
            examples.append(example)
    empty.tell("rows with an empty text")
    if not examples:
        bad.tell()
        language = f" in {columns.only[1]}" if columns.only else ""
        raise UserError(f"{path}: there is not a single example{language} in it")
    return examples


def has_text(example, task, bad, empty):
    """Whether an example can be used as far as its texts go.

    One that has nothing but spaces is for `bad`; of GLUE's sets, which have some that the release
    takes, for `empty`, and it is used.
    """
    texts = (
        {"text": example.text_a}
        if example.text_b is None
        else {"text_a": example.text_a, "text_b": example.text_b}
    )
    found = next((name for name, text in texts.items() if not text.strip()), None)
    if found:
        (bad if task.layout else empty)(f"{example.where}: {found} is empty")
    return not (found and task.layout)


def _train_columns(task, data_dir, train):
    """How many columns the training file has; None if there is none."""
    names = task.files["train"].names if data_dir else ()
    paths = [train] if train else [os.path.join(data_dir, name) for name in names]
    path = next((path for path in paths if tf.io.gfile.exists(path)), None)
    first = path and next(read_rows(path), None)
    return first and len(first[1])


def _example(task, where, index, row, columns, with_label):
    """The example of a row; None if it is one of another language."""

    def cell(position, what):
        if not -len(row) <= position < len(row):
            raise _BadRow(f"{what} is expected in column {position + 1}, but there are {len(row)}")
        return row[position]

    if columns.width and any(row[columns.width :]):
        # As of a comma that should be in quotes: what follows it is in the wrong column.
        raise _BadRow(f"{len(row)} columns, but the first line has {columns.width}")
    if columns.only and cell(columns.only[0], "language") != columns.only[1]:
        return None
    text_a = cell(columns.text_a, "text_a")
    text_b = None if columns.text_b is None else cell(columns.text_b, "text_b")
    row_id = str(index) if columns.id is None else cell(columns.id, "id")
    label = None
    try:
        if with_label:
            positions = columns.label if isinstance(columns.label, tuple) else (columns.label,)
            label = read_label(task, [cell(position, "label") for position in positions])
        names = task.layout.numbers if task.layout else ()
        pairs = zip(columns.numbers, names, strict=True)
        cells = [cell(position, name) for position, name in pairs]
        example = Example(where, text_a, text_b, label, row_id)
        return with_numbers(example, task.layout, cells)
    except ValueError as error:
        raise _BadRow(error) from None


def with_numbers(example, layout, cells):
    """The example with the numbers beside its text, as the layout wants them.

    Args:
      example: an `Example`.
      layout: a `Layout`, or None.
      cells: the texts of the layout's numbers.

    Raises:
      ValueError: if one of them is no number.
    """
    if not cells:
        return example
    found = [read_number(cell, name) for cell, name in zip(cells, layout.numbers, strict=True)]
    example = dataclasses.replace(example, numbers=tuple(found))
    if layout.numeric_as == "text" and example.text_a.strip():
        text = as_words(layout.numbers, cells) + example.text_a
        example = dataclasses.replace(example, text_a=text)
    return example


# Bytes that are not UTF-8, as Python keeps them in a text.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def read_rows(path):
    """Reads the rows of a file; blank lines are none.

    Yields:
      (number of its line from 1, list of fields, what is wrong with it or None)

    Raises:
      UserError: if the file cannot be read.
    """
    split = _commas if path.lower().endswith(".csv") else _tabs
    for number, row, problem in split(_lines(path)):
        text = "\t".join(row)
        if not problem and "\0" in text:
            problem = "there is a NUL character in it"
        if not problem and (found := _NOT_UTF8.search(text)):
            problem = f"not UTF-8 text (the byte {ord(found[0]) - 0xDC00:#x})"
        yield number, row, problem


def _lines(path):
    """Yields the lines with their ends; bytes that are not UTF-8 come as lone surrogates."""
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            for number, line in enumerate(reader):
                yield line.decode("utf-8" if number else "utf-8-sig", "surrogateescape")
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def _tabs(lines):
    """Quotes have no meaning, as in GLUE's files."""
    for number, line in enumerate(lines, start=1):
        if text := line.rstrip("\r\n"):
            yield number, text.split("\t"), None


def _commas(lines):
    """Quotes as spreadsheets write them; a field in quotes may have commas and ends of lines."""
    # Python's default is 128 kB. It is one for all of the process, and harmless to raise.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, [], f"not comma-separated text ({error})"
            continue
        if row:
            yield number, row, None
