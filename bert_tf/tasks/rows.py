"""Rows of tab- and comma-separated files and of tensorflow-datasets, and bad rows among them."""

import csv
import os
import re
import sys

import tensorflow as tf

from bert_tf import console, files
from bert_tf.data.tfds_builder import load_builder
from bert_tf.errors import UserError, reason
from bert_tf.tasks.base import part_of


class BadRows:
    """Counts rows that cannot be used, or raises an error at the first one.

    >>> bad = BadRows(skip=True)
    >>> bad("dev.tsv, line 3: the label is empty")
    >>> bad.count, bad.first
    (1, 'dev.tsv, line 3: the label is empty')
    """

    def __init__(self, skip=False):
        self.skip = skip
        self.count, self.first = 0, None

    def __call__(self, message):
        if not self.skip:
            raise UserError(f"{message} (`skip_bad_rows` leaves such rows out)")
        self.count += 1
        self.first = self.first or message

    def report(self, what="bad rows left out"):
        """Log the number of rows, if there were any."""
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


def find_file(split, names, data_dir=None, path=None):
    """Return the file of a split: `path` if given, else the first of `names` in `data_dir`.

    Raises:
      UserError: if there is none.
    """
    argument = f"{part_of(split)}_file"
    if path:
        return files.require(path, argument)
    if not data_dir:
        raise UserError(f"`data_dir` or `{argument}` must be given")
    for name in names:
        if tf.io.gfile.exists(os.path.join(data_dir, name)):
            return files.require(os.path.join(data_dir, name), "data_dir")
    raise UserError(f"`data_dir`: {data_dir} has no {' or '.join(names)}")


def find_column(path, names, wanted, argument=None):
    """Return the index of the first of the `wanted` columns that a header has, ignoring case.

    Args:
      path: of the file, for messages.
      names: the columns of the header.
      wanted: possible names of the column.
      argument: the argument that names the column; None if it may be missing, with the result None.
    """
    lowered = [name.lower() for name in names]
    for name in wanted:
        if name in names:
            return names.index(name)
        if name.lower() in lowered:
            return lowered.index(name.lower())
    if argument:
        raise UserError(
            f"{path}, line 1: the header has no column {' or '.join(map(repr, wanted))}, only "
            f"{names}; name the column with `{argument}`"
        )
    return None


class TfdsRows:
    """The rows of a data set of tensorflow-datasets, which is prepared if necessary.

    Attributes:
      name: of the data set.
      features: its features by name.
      supervised_keys: names of the features of input and target, None where it does not say.
    """

    def __init__(self, name, data_dir=None):
        self._builder, self.name = load_builder(name, data_dir), name
        self.features = self._builder.info.features
        self.supervised_keys = self._builder.info.supervised_keys or (None, None)

    def find_feature(self, names, argument=None):
        """Return the first of `names` that is a feature.

        If there is none, the result is None, or a UserError that names the `argument`.
        """
        name = next((name for name in names if name in self.features), None)
        if name is None and argument:
            raise UserError(
                f"`{argument}`: {self.name} has no feature {names[0]!r}; it has "
                f"{', '.join(self.features)}"
            )
        return name

    def find_split(self, names):
        """Return the first of `names` that is a split, None if there is none."""
        return next((name for name in names if name in self._builder.info.splits), None)

    def missing_split(self, part):
        """Return the UserError for a data set without a split for "train", "dev" or "test"."""
        return UserError(
            f"`tfds_name`: {self.name} has no split for {part}, only "
            f"{', '.join(self._builder.info.splits)}; name one with `tfds_splits`"
        )

    def read(self, split):
        """Yield (place, row) for each example of a split, such as "train" or "train[:90%]"."""
        import tensorflow_datasets as tfds

        try:
            rows = tfds.as_numpy(self._builder.as_dataset(split=split, shuffle_files=False))
        except (ValueError, AssertionError) as error:
            raise UserError(f"`tfds_splits`: {self.name}, {split}: {reason(error)}") from None
        for number, row in enumerate(rows):
            yield f"{self.name}, {split}, example {number}", row


# Bytes that are not UTF-8, as Python keeps them in a str.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def read_rows(path):
    """Read the rows of a file; blank lines are skipped.

    Args:
      path: a file that ends in .csv is comma-separated, with quotes; all others are tab-separated,
        and quotes in them are text.

    Yields:
      (line number from 1, list of fields, what is wrong with the row or None)

    Raises:
      UserError: if the file cannot be read.
    """
    split = _split_csv if path.lower().endswith(".csv") else _split_tsv
    for number, row, problem in split(_lines(path)):
        text = "\t".join(row)
        if not problem and "\0" in text:
            problem = "it contains a NUL character"
        if not problem and (match := _NOT_UTF8.search(text)):
            problem = f"not UTF-8 text (the byte {ord(match[0]) - 0xDC00:#x})"
        yield number, row, problem


def _lines(path):
    """Yield lines with their ends; bytes that are not UTF-8 come as lone surrogates."""
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            for number, line in enumerate(reader):
                yield line.decode("utf-8" if number else "utf-8-sig", "surrogateescape")
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def _split_tsv(lines):
    """Split at tabs. Quotes have no meaning, as in GLUE's files."""
    for number, line in enumerate(lines, start=1):
        if text := line.rstrip("\r\n"):
            yield number, text.split("\t"), None


def _split_csv(lines):
    """Split at commas. A quoted field may contain commas and line ends."""
    # Python's default limit is 128 kB. It is global to the process, and harmless to raise.
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
