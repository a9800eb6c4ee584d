"""Tables of text: delimited files, JSON, Parquet and Excel; does not import TensorFlow."""

import contextlib
import csv
import io
import itertools
import json
import os
import re
import sys
from typing import NamedTuple

from bert_tf.errors import UserError, check_unicode, reason
from bert_tf.io import files, json_files

# Names of delimiters, in messages and as values of `delimiter`.
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}

# File kinds by name extension.
ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json_lines",
    ".ndjson": "json_lines",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_NAMES = {"json": "JSON", "json_lines": "JSON lines", "parquet": "Parquet", "excel": "Excel"}

# First bytes of unsupported files, with a description and advice.
_OTHERS = (
    (b"PK\x03\x04", "a zip archive", "unpack it, or name it .xlsx if it is from Excel"),
    (b"\xd0\xcf\x11\xe0", "an Excel file of the old format", "save it as .xlsx or .csv"),
    (b"BZh91AY&SY", "compressed by bzip2", "unpack it"),
    (b"\xfd7zXZ\0", "compressed by xz", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it"),
)

# How much of a file is read to recognize its format.
_SAMPLE_BYTES = 1 << 16

# Bytes that are not UTF-8, decoded with Python's "surrogateescape".
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


class TableFormat(NamedTuple):
    """The format of a table; `kind` is "delimited", "json_lines", "json", "parquet" or "excel".

    In tab-separated files, quotes are plain text as in GLUE; in other delimited files, fields may
    be quoted. An .xlsx file is read from its first sheet.
    """

    kind: str
    delimiter: str = ""

    @property
    def is_delimited(self):
        return self.kind == "delimited"

    @property
    def has_names(self):
        """Whether columns always have names. In other formats the first row may be a header."""
        return self.kind in ("json", "json_lines", "parquet")

    @property
    def unit(self):
        return "line" if self.kind in ("delimited", "json_lines") else "row"

    def __str__(self):
        if not self.is_delimited:
            return _NAMES[self.kind]
        names = {character: name for name, character in DELIMITERS.items()}
        quotes = "quotes are text" if self.delimiter == "\t" else "fields may be quoted"
        return f"{names.get(self.delimiter, repr(self.delimiter))}-separated, {quotes}"


def parse_delimiter(text):
    r"""Return the character for a value of `delimiter`: a name, "\t" or the character itself."""
    character = DELIMITERS.get(text.strip().lower(), "\t" if text == "\\t" else text)
    if len(character) != 1 or character in '"\r\n\0':
        raise UserError(
            f"`delimiter={text}`: expected {', '.join(DELIMITERS)} or a single other character"
        )
    return character


def format_by_name(path):
    """Infer a format from the file name: .csv has commas, .xlsx is Excel, others have tabs."""
    ending = file_extension(path)
    if ENDINGS.get(ending) == "excel":
        return TableFormat("excel")
    return TableFormat("delimited", "," if ending == ".csv" else "\t")


def file_extension(path):
    """Return ".csv" for a.CSV and a.csv.gz."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def find_format(path, delimiter=None, names=()):
    """Recognize the format of a file.

    JSON and Parquet are recognized by extension or first characters, Excel by extension. Other
    files have the delimiter that separates the likely column `names` (in lower case) in the first
    line, or that divides the first lines of a .csv without tabs most consistently, or else tabs.
    """
    start = _read_start(path)
    ending = file_extension(path)
    kind = ENDINGS.get(ending)
    if start.startswith(b"PAR1") or kind == "parquet":
        return TableFormat("parquet")
    if kind == "excel":
        return TableFormat("excel")
    for magic, name, advice in _OTHERS:
        if start.startswith(magic):
            raise UserError(f"{path}: {name}, expected a table; {advice}")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path}: found UTF-16 text, expected UTF-8; save the file as UTF-8")
    text = start.decode("utf-8-sig", "replace")
    first = text.lstrip()[:1]
    is_object = first == "{" and ending not in (".csv", ".tsv") and _is_object(text)
    if kind or is_object:
        return TableFormat("json" if first == "[" else "json_lines")
    if delimiter:
        return TableFormat("delimited", parse_delimiter(delimiter))
    lines = text.split("\n")
    if len(start) == _SAMPLE_BYTES and len(lines) > 1:
        del lines[-1]  # incomplete
    return TableFormat("delimited", _find_delimiter(lines, ending == ".csv", set(names)))


def _read_start(path):
    try:
        with files.system(path).GFile(path, "rb") as reader:
            return files.unpack(reader).read(_SAMPLE_BYTES)
    except files.io_errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def _is_object(text):
    try:
        return isinstance(json_files.loads(text.lstrip().splitlines()[0]), dict)
    except (ValueError, IndexError):
        return False


def _find_delimiter(lines, is_csv, names):
    lines = [f"{line}\n" for line in lines if line.strip("\r")]
    default = "," if is_csv else "\t"
    if not lines or (not is_csv and "\t" in lines[0]):
        return default
    tables = {delimiter: _sample_rows(lines, delimiter) for delimiter in DELIMITERS.values()}
    for delimiter, rows in tables.items():
        header = rows[0] if rows and len(rows[0]) > 1 else ()
        if names.intersection(name.strip().lower() for name in header):
            return delimiter
    if not is_csv or all(len(row) > 1 for row in tables["\t"]):
        return "\t"

    def consistency(delimiter):
        counts = [len(row) for row in tables[delimiter]] or [0]
        is_divided = counts[0] > 1
        return is_divided * counts.count(counts[0]) / len(counts), is_divided * counts[0]

    return max(tables, key=consistency)  # the comma wins ties


def _sample_rows(lines, delimiter):
    """Split lines at a delimiter, up to the first malformed line."""
    if delimiter == "\t":
        return [line.rstrip("\r\n").split("\t") for line in lines]
    raise_field_limit()
    rows = []
    with contextlib.suppress(csv.Error):
        rows.extend(filter(None, csv.reader(lines, delimiter=delimiter)))
    return rows


def read_rows(path, table_format=None):
    """Yield (number, cells, problem) for the rows of a table; skip blank lines.

    The line or row number counts from 1; `problem` is a str or None. Cells are str in delimited
    files and Excel, and any values in JSON and Parquet, whose first row has the column names.
    """
    # Not pandas, which has no line numbers and fills incomplete rows.
    kind, delimiter = table_format or format_by_name(path)
    if kind == "parquet":
        yield from _parquet_rows(path)
    elif kind == "excel":
        yield from _excel_rows(path)
    elif kind != "delimited":
        yield from _json_rows(path, kind)
    else:
        split = _split_quoted if delimiter != "\t" else _split_tabs
        for number, row, problem in split(_lines(path), delimiter):
            yield number, row, problem or _text_problem("\t".join(row))


def _text_problem(text):
    if "\0" in text:
        return "it contains a NUL character"
    if match := _NOT_UTF8.search(text):
        return f"not UTF-8 text (the byte {ord(match[0]) - 0xDC00:#x})"
    return None


def _lines(path):
    """Yield lines with their line ends; bytes that are not UTF-8 become lone surrogates."""
    try:
        with files.system(path).GFile(path, "rb") as reader:
            for number, line in enumerate(files.unpack(reader)):
                yield line.decode("utf-8" if number else "utf-8-sig", "surrogateescape")
    except files.io_errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def _split_tabs(lines, delimiter):
    """Split at tabs; quotes are plain text, as in GLUE."""
    for number, line in enumerate(lines, start=1):
        if text := line.rstrip("\r\n"):
            yield number, text.split(delimiter), None


def raise_field_limit():
    # The default limit is 128 kB. Raising it affects the whole process, but is harmless.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def _split_quoted(lines, delimiter):
    raise_field_limit()
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = str(TableFormat("delimited", delimiter)).partition(",")[0]
            yield number, [], f"not {what} text ({error})"
            continue
        if row:
            yield number, row, None


def _json_rows(path, kind):
    if kind == "json":
        values = enumerate(json_files.read(path, list), 1)
        rows = [(number, value, None) for number, value in values]
    else:
        rows = list(_json_lines(path))
    objects = (value for _, value, _ in rows if isinstance(value, dict))
    names = list(dict.fromkeys(itertools.chain.from_iterable(objects)))
    if names:
        yield 1, names, None
    for number, value, problem in rows:
        if isinstance(value, dict) and names:
            yield number, [value.get(name) for name in names], None
        else:
            yield number, [], problem or "expected a JSON object of columns by name"


def _json_lines(path):
    """Yield (number, value, problem or None) for each line."""
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        value, problem = None, _text_problem(line)
        if not problem:
            try:
                value = json_files.loads(line)
            except json.JSONDecodeError as error:
                problem = f"invalid JSON ({error.msg})"
        yield number, value, problem


def open_parquet(path):
    """Return a `pyarrow.parquet.ParquetFile`; UserError without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet requires the package pyarrow (pip install 'bert_tf[parquet]')"
        ) from None
    try:
        with files.system(path).GFile(path, "rb") as reader:
            return pyarrow.parquet.ParquetFile(io.BytesIO(reader.read()))
    except (pyarrow.ArrowException, *files.io_errors()) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({reason(error)})") from None


def _parquet_rows(path):
    table = open_parquet(path)
    try:
        columns = [column.to_pylist() for column in table.read().columns]
    except OSError as error:  # a damaged page
        raise UserError(f"{path}: cannot be read as Parquet ({reason(error)})") from None
    yield 1, list(table.schema_arrow.names), None
    for number, row in enumerate(zip(*columns, strict=True), 1):
        yield number, list(row), None


def _excel_rows(path):
    """Yield the non-empty rows of the first sheet, with the saved values of formulas."""
    try:
        import openpyxl
    except ImportError:
        raise UserError(
            f"{path}: Excel files require the package openpyxl (pip install openpyxl), or save the "
            "sheet as .csv"
        ) from None
    try:
        with files.system(path).GFile(path, "rb") as reader:
            data = io.BytesIO(reader.read())
        sheet = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets[0]
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(map(as_text, row))
            while cells and not cells[-1]:  # cells with formatting only
                del cells[-1]
            if cells:
                yield number, cells, _text_problem("".join(cells))
    except Exception as error:  # damaged files raise exceptions of many classes
        raise UserError(f"{path}: cannot be read as Excel ({reason(error)})") from None


def as_text(value):
    """Return a cell as text, "" for None and NaN; ValueError if it is not a valid scalar."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("it contains a NUL character")
        check_unicode(value)
        return value
    if value is None or value != value:  # pandas writes missing numbers as NaN
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict, bytes)):
        raise ValueError(f"found {str(value)[:40]}, expected a text or a number")
    return str(value)
