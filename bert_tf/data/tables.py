"""Tables: delimited files, JSON, Parquet and Excel give rows; does not import TensorFlow."""

import collections
import contextlib
import csv
import importlib
import io
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bert_tf.errors import UserError, check_unicode, reason
from bert_tf.io import files, json_files

# Names of delimiters, in messages and as values of `delimiter`.
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_NAMES = {character: name for name, character in DELIMITERS.items()}

# File kinds by name extension.
ENDINGS = {
    ".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json_lines",
    ".ndjson": "json_lines", ".xlsx": "excel", ".xlsm": "excel",
}  # fmt: skip
_UNITS = {"delimited": "line", "json_lines": "line", "columns": "item", "tfds": "example"}

# First bytes of zip, old Excel, bzip2, xz and zstd files.
_ARCHIVES = (
    b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"BZh91AY&SY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
)  # fmt: skip

# A first line that sets the delimiter for Excel.
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)

# Methods of series, Arrow's arrays and scalars, arrays, tensors and ragged tensors.
TO_PYTHON = ("to_list", "to_pylist", "as_py", "tolist", "numpy")

# How much of a file is read to recognize its format.
_SAMPLE_BYTES = 1 << 16

# Bytes that are not UTF-8, decoded with Python's "surrogateescape".
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


class TableFormat(NamedTuple):
    """The format of a table.

    `kind` is "delimited", "json_lines", "json", "parquet" or "excel" for files, "columns" for
    Python containers, and "tfds" for tensorflow-datasets. In tab-separated files, quotes are text.
    """

    kind: str
    delimiter: str = ""

    @property
    def has_names(self):
        """Whether columns always have names. In other formats the first row may be a header."""
        return self.kind not in ("delimited", "excel")

    @property
    def unit(self):
        return _UNITS.get(self.kind, "row")

    def __str__(self):
        if self.kind != "delimited":
            return self.kind.replace("_", " ")
        quotes = "quotes are text" if self.delimiter == "\t" else "fields may be quoted"
        return f"{_NAMES.get(self.delimiter, repr(self.delimiter))}-separated, {quotes}"


class Table(NamedTuple):
    """Rows of cells, from any source.

    Attributes:
      name: name of the source, for messages, such as the path of a file.
      rows: (number, cells, problem) of each row; `problem` is a str or None. If the format always
        has column names, they are the first row. Cells are str in delimited files and Excel, and
        Python values (str, number, bool, None, NaN, list, dict) in other formats.
      label_names: dict from each column of class labels to the names of its labels.
    """

    name: str
    format: TableFormat
    rows: Iterator
    label_names: Mapping = {}

    def place(self, number):
        return f"{self.name}, {self.format.unit} {number}"

    @property
    def is_argument(self):
        """Whether the table is an argument of `fit` or of another method."""
        return self.format.kind == "columns"

    @property
    def header_place(self):
        return self.name if self.format.has_names else self.place(1)


def open_table(path, delimiter=None, saved_delimiter=None):
    """Return the `Table` of a file.

    `find_format` determines the format. Raises UserError if the file has no columns with the given
    `delimiter`; a `saved_delimiter` is for delimited files only.
    """
    table_format = find_format(path, delimiter or saved_delimiter)
    if delimiter and table_format.kind != "delimited":
        raise UserError(
            f"`delimiter={delimiter}`: {path} is {table_format}, expected delimited text"
        )
    return Table(path, table_format, read_rows(path, table_format))


def parse_delimiter(text):
    r"""Return the character for a value of `delimiter`: a name, "\t" or the character itself."""
    character = DELIMITERS.get(text.strip().lower(), "\t" if text == "\\t" else text)
    if len(character) != 1 or character in '"\r\n\0':
        raise UserError(f"`delimiter={text}`: expected {', '.join(DELIMITERS)} or a character")
    return character


def file_extension(path):
    """Return ".csv" for a.CSV and a.csv.gz."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def find_format(path, delimiter=None):
    """Return the `TableFormat` of a file.

    Parquet is recognized by extension or content, Excel by extension, JSON by extension or a first
    character { or [, unless the file is .csv or .tsv or the `delimiter` is given. Other files are
    delimited, .csv by commas and others by tabs.
    """
    with files.reading(path) as reader:
        start = reader.read(_SAMPLE_BYTES)
    ending = file_extension(path)
    kind = ENDINGS.get(ending)
    if start.startswith(b"PAR1") or kind == "parquet":
        return TableFormat("parquet")
    if kind == "excel":
        return TableFormat("excel")
    if start.startswith(_ARCHIVES):
        found = "found an archive or a compressed file, expected a table"
        raise UserError(f"{path}: {found}; unpack it or, if it is from Excel, save it as .xlsx")
    files.check_encoding(path, start[:100])
    text = start.decode("utf-8-sig", "replace")
    first = text.lstrip()[:1]
    if kind or (first in ("{", "[") and ending not in (".csv", ".tsv") and not delimiter):
        return TableFormat("json" if first == "[" else "json_lines")
    if delimiter:
        return TableFormat("delimited", parse_delimiter(delimiter))
    lines = text.split("\n" if "\n" in text else "\r")
    if match := _SEPARATOR.fullmatch(lines[0]):
        return TableFormat("delimited", match[1])
    if len(start) == _SAMPLE_BYTES and len(lines) > 1:
        del lines[-1]  # incomplete
    table_format = TableFormat("delimited", "," if ending == ".csv" else "\t")
    _check_delimiter(path, [f"{x}\n" for x in lines if x.strip("\r")], table_format.delimiter)
    return table_format


def _check_delimiter(path, lines, used):
    """Raise UserError if only another usual delimiter gives all lines equally many columns."""

    def num_columns(delimiter):
        counts = {len(row) for _, row, problem in _split(iter(lines), delimiter) if not problem}
        return counts.pop() if len(counts) == 1 else 0

    if num_columns(used) > 1:
        return
    for name, delimiter in DELIMITERS.items():
        if delimiter != used and (count := num_columns(delimiter)) > 1:
            raise UserError(
                f"{path}: the {name}, not the {_NAMES[used]}, divides all lines into {count} "
                f"columns; use `delimiter={name}`, or `delimiter={_NAMES[used]}` if this is right"
            )


def read_rows(path, table_format):
    """Yield the rows of a file, see `Table`; not with pandas, which has no line numbers."""
    kind, delimiter = table_format
    other = "" if file_extension(path) in ENDINGS else "; use `delimiter=tab` if it is not JSON"
    if kind == "parquet":
        yield from _parquet_rows(path)
    elif kind == "excel":
        yield from _excel_rows(path)
    elif kind == "json_lines":
        yield from object_rows(_json_lines(path, other))
    elif kind == "json":
        try:
            rows = enumerate(json_files.read(path, list), 1)
        except UserError as error:
            raise UserError(f"{error}{other}") from None
        yield from object_rows((number, value, None) for number, value in rows)
    else:
        lines = _lines(path)
        first = next(lines, "")
        first = "\n" if _SEPARATOR.fullmatch(first) else first
        for number, row, problem in _split(itertools.chain([first], lines), delimiter):
            yield number, row, problem or _text_problem("\t".join(row))


def _text_problem(text):
    if "\0" in text:
        return "it contains a NUL character"
    if match := _NOT_UTF8.search(text):
        return f"not UTF-8 text (the byte {ord(match[0]) - 0xDC00:#x})"
    return None


def _lines(path):
    """Yield lines with their line ends; bytes that are not UTF-8 become lone surrogates."""
    with files.reading(path) as reader:
        for line in files.iterate_lines(reader, path):
            yield line.decode("utf-8", "surrogateescape")


def _split(lines, delimiter):
    """Yield the rows of lines, except blank lines; between tabs, quotes are text, as in GLUE."""
    if delimiter != "\t":
        yield from _split_quoted(lines, delimiter)
        return
    for number, line in enumerate(lines, start=1):
        if text := line.rstrip("\r\n"):
            yield number, text.split(delimiter), None


@contextlib.contextmanager
def long_cells():
    """Raise the limit of `csv` for a cell (128 kB), which all readers share, in this context."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _split_quoted(lines, delimiter):
    """Split at delimiters outside of quotes; a line with an unbalanced quote is a bad row."""
    number = 1
    used, again = [], collections.deque()

    def reread():
        while line := again.popleft() if again else next(lines, None):
            used.append(line)
            yield line

    reader = csv.reader(reread(), delimiter=delimiter, strict=True)
    while True:
        used.clear()
        try:
            with long_cells():
                row, problem = next(reader), None
        except StopIteration:
            return
        except csv.Error as error:
            what = str(TableFormat("delimited", delimiter)).partition(",")[0]
            row, problem = [], f"not {what} text ({error})"
            again.extendleft(reversed(used[1:]))
            del used[1:]
            reader = csv.reader(reread(), delimiter=delimiter, strict=True)
        if row or problem:
            yield number, row, problem
        number += len(used)


def object_rows(rows):
    """Yield the rows of a `Table`, given (number, dict of cells or invalid value, problem)."""
    rows = list(rows)
    objects = (value for _, value, _ in rows if isinstance(value, Mapping))
    names = list(dict.fromkeys(itertools.chain.from_iterable(objects)))
    if names:
        yield 1, names, None
    for number, value, problem in rows:
        if isinstance(value, Mapping) and names:
            yield number, [value.get(name) for name in names], None
        else:
            yield number, [], problem or "expected an object of columns by name"


def _json_lines(path, advice):
    """Yield (number, value, problem or None) for each line."""
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        value, problem = None, _text_problem(line)
        if not problem:
            try:
                value = json_files.loads(line)
            except json.JSONDecodeError as error:
                problem = f"invalid JSON ({error.msg}){advice}"
        yield number, value, problem


@contextlib.contextmanager
def _library(path, module, kind):
    """Import the module that reads a kind of files; convert its errors to a UserError."""
    try:
        yield importlib.import_module(module)
    except ImportError:
        raise UserError(f"{path}: {kind} requires pip install {module.split('.')[0]}") from None
    except Exception as error:  # damaged files raise exceptions of many classes
        raise UserError(f"{path}: cannot be read as {kind} ({reason(error)})") from None


def read_parquet(path):
    """Return a file as a `pyarrow.Table`; raise UserError if pyarrow is not installed."""
    with (
        _library(path, "pyarrow.parquet", "Parquet") as parquet,
        files.open_file(path, "rb") as reader,
    ):
        return parquet.ParquetFile(io.BytesIO(reader.read())).read()


def _parquet_rows(path):
    table = read_parquet(path)
    yield 1, table.column_names, None
    columns = [column.to_pylist() for column in table.columns]
    for number, row in enumerate(zip(*columns, strict=True), 1):
        yield number, list(row), None


def _excel_rows(path):
    """Yield the non-empty rows of the first sheet, with the saved values of formulas."""
    with _library(path, "openpyxl", "Excel") as openpyxl:
        with files.open_file(path, "rb") as reader:
            data = io.BytesIO(reader.read())
        sheet = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets[0]
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(map(as_text, row))
            while cells and not cells[-1]:  # cells with formatting only
                del cells[-1]
            if cells:
                yield number, cells, _text_problem("".join(cells))


class MissingValue(ValueError):
    """A required cell is None or NaN."""


def is_missing(value):
    """Return whether a value is None, NaN or NaT; `to_python` converts pandas' NA to None."""
    return value is None or bool(value != value)


def as_text(value):
    """Return a cell as text, "" for None and NaN; ValueError if it is not a valid scalar."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("it contains a NUL character")
        check_unicode(value)
        return value
    if is_missing(value):
        return ""
    if isinstance(value, list) and len(value) == 1:  # a row of an array (N, 1)
        return as_text(value[0])
    if isinstance(value, (list, dict, bytes)):
        raise ValueError(f"found {str(value)[:40]}, expected a text or a number")
    return str(value)


def to_python(value, errors="strict"):
    """Convert a value of a container to Python values, and bytes to str.

    `errors` is an argument of `bytes.decode`: for "strict", bytes that are not UTF-8 raise
    UnicodeDecodeError, which is a ValueError; "replace" is for texts, whose tokenizer then drops
    the replacement characters.
    """
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", errors)
    if isinstance(value, Mapping):
        return {str(name): to_python(x, errors) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_python(x, errors) for x in value]
    if isinstance(value, np.floating):
        return float(str(value))  # 0.1, not 0.10000000149011612, for a float32
    if isinstance(value, np.generic):
        return to_python(value.item(), errors)
    for method in TO_PYTHON:
        if hasattr(value, method):
            return to_python(getattr(value, method)(), errors)
    return None if type(value).__name__ == "NAType" else value  # of pandas
