"""Rows of tab- and comma-separated files, and the handling of bad rows."""

import csv
import re
import sys

import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, reason


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


class BadRow(Exception):
    """A row cannot be used; the message does not name its place."""


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
