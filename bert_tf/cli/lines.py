"""Flags and loop of the commands that answer lines of text or the rows of a table."""

import contextlib
import csv
import io
import itertools
import json
import os
import select
import sys
from typing import NamedTuple

from absl import flags

from bert_tf import console
from bert_tf.cli.flags import check_files, define_options
from bert_tf.data import tables
from bert_tf.data.columns import (
    ANY_TEXT,
    Layout,
    RowWarnings,
    are_numbers,
    is_header,
    trained_header,
)
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tasks.classification.options import ClassificationData

FLAGS = flags.FLAGS

flags.disclaim_key_flags()

# Maximum number of lines to answer together, sorted by length.
_CHUNK_SIZE = 2048

_TABLE_FLAGS = ("text_columns", "header", "delimiter")


def define_line_flags():
    """Define the flags for input and output."""
    flags.DEFINE_string("input_file", None, "Text or table to answer. Default: standard input.")
    flags.DEFINE_string("output_file", None, "File for the answers. Default: standard output.")
    define_options(ClassificationData, only=_TABLE_FLAGS)
    flags.DEFINE_bool("json", False, "Whether lines are JSON objects of inputs or columns.")
    flags.DEFINE_integer(
        "batch_size",
        None,
        "Maximum number of lines in a batch. Default: from 32 long lines to 256 short ones.",
        lower_bound=1,
    )


def check_line_flags():
    for name in _TABLE_FLAGS:
        if FLAGS[name].present and (FLAGS.json or not FLAGS.input_file):
            raise UserError(f"--{name} requires a table as --input_file, without --json")
    check_files()
    if sys.stdout is None and not FLAGS.output_file:
        raise UserError("--output_file is required, because standard output is closed")


def answer_lines(predictor, title):
    """Answer the input that the flags name: plain lines as JSON lines, tables as tables."""
    if FLAGS.input_file and not FLAGS.json:
        columns = FLAGS.text_columns or ()
        if table := open_table(predictor, FLAGS.input_file, columns, FLAGS.delimiter, FLAGS.header):
            answer_table(predictor, table, FLAGS.output_file, console.write)
            return
    if FLAGS.input_file:
        chunks = _chunks(files.read_lines(FLAGS.input_file), "lines")
    else:
        chunks = stdin_chunks(predictor.inputs, title)
    with open_output() as write:
        num_invalid = _answer(predictor, chunks, write)
    if num_invalid:
        raise UserError(f"{num_invalid} lines were invalid; their answers contain the errors")


def open_output():
    """Return a context with a function that writes to `output_file` or standard output."""
    path = FLAGS.output_file
    return files.writing_text(path) if path else contextlib.nullcontext(console.write)


def _chunks(items, unit):
    """Yield lists of `items`, and report the progress."""
    progress = console.ProgressLog("answering", unit, is_brief=True)
    items = iter(items)
    while chunk := list(itertools.islice(items, _CHUNK_SIZE)):
        yield chunk
        progress.add(len(chunk))
    progress.done()


def stdin_chunks(inputs, title):
    """Yield lists of the lines available on standard input, without waiting for more."""
    if sys.stdin is None:
        raise UserError("--input_file is required, because standard input is closed")
    if sys.stdin.isatty():
        console.error(f"{title}: type {' <tab> '.join(inputs)}, one per line; Ctrl-D to end")
    stdin = sys.stdin.fileno()
    data = None
    rest = b""
    lines, invalid_lines = [], []
    count = 0
    while data != b"":
        select.select([stdin], [], [])  # a non-blocking pipe may be empty
        try:
            data = os.read(stdin, 1 << 16)
        except OSError as error:
            raise UserError(f"standard input cannot be read ({error})") from None
        *complete, rest = (rest + data).split(b"\n")
        lines += complete if data or not rest else [rest]
        has_more = data and select.select([stdin], [], [], 0)[0]
        if lines and not (has_more and len(lines) < _CHUNK_SIZE):
            chunk = [line.decode("utf-8", "ignore") for line in lines]
            pairs = enumerate(zip(chunk, lines, strict=True), count + 1)
            invalid_lines += [number for number, (text, line) in pairs if text.encode() != line]
            count += len(lines)
            lines = []
            yield chunk
    if invalid_lines:
        console.warning(
            f"standard input: {len(invalid_lines)} lines are not valid UTF-8, the first is line "
            f"{invalid_lines[0]}; the invalid bytes were ignored"
        )


def _answer(predictor, chunks, write):
    num_invalid = number = 0
    empty = RowWarnings()
    for chunk in chunks:
        rows, errors = [], {}
        for i, line in enumerate(chunk):
            number += 1
            line = line.removeprefix("\ufeff") if number == 1 else line
            try:
                row = predictor.read(line.rstrip("\r\n"), FLAGS.json)
            except ValueError as error:
                problem = f"not JSON ({error.msg})" if hasattr(error, "msg") else error
                errors[i] = {"error": f"line {number}: {problem}"}
                continue
            rows.append(row)
            for name in (name for name, x in row.items() if not str(x).strip()):
                empty.add(f"line {number}: {name} is empty")
        valid = iter(predictor(rows))
        num_invalid += len(errors)
        answers = [errors.get(i) or next(valid) for i in range(len(chunk))]
        write("".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers))
    empty.report("lines with an empty text")
    return num_invalid


# Files with these extensions are tables; others have lines of texts, unless flags say otherwise.
_ENDINGS = (".csv", ".tsv", *tables.ENDINGS)

# Inputs whose columns may have any of the usual names.
_USUAL_INPUTS = (["text"], ["text_a", "text_b"])


class Inputs(NamedTuple):
    """The rows of a table, as `cells` and as `inputs` for a `serving.Predictor`."""

    path: str
    format: tables.TableFormat
    names: tuple
    cells: list
    inputs: list


def open_table(predictor, path, text_columns=(), delimiter=None, header="auto"):
    """Read a table with inputs of a model; return None for plain lines.

    `text_columns` are names or numbers from 0. By default, they are the columns used for training,
    else columns with the usual names. `header` is "auto", "yes" or "no".
    """
    from bert_tf.tasks.classification.examples import examples_of
    from bert_tf.tasks.classification.glue import custom_dataset

    inputs = [name for name in predictor.inputs if name != "numbers"]
    metadata = predictor.metadata
    saved = metadata.get("columns", {})
    texts = text_columns or saved.get("text_columns") or ()
    if not texts and inputs not in _USUAL_INPUTS:
        texts = inputs
    is_table = tables.file_extension(path) in _ENDINGS or header != "auto"
    if header == "no" and not text_columns and not are_numbers(texts):
        texts = ()  # names require a header
    if header == "auto" and not text_columns and saved.get("header") == "yes":
        header = "yes"
    numbers = tuple(metadata.get("numbers") or metadata.get("numbers_in_text") or ())
    numeric_as = "vector" if metadata.get("numbers") else "text"
    options = {"num_texts": len(inputs), "trained_header": trained_header(saved)}
    layout = Layout(tuple(texts), header=header, numbers=numbers, numeric_as=numeric_as, **options)
    if not (is_table or text_columns or delimiter):
        _check_lines(path, layout)
        return None
    if "endings" in inputs:
        raise UserError(f"{path}: multiple choice reads lines (.txt) or `json` objects, no tables")
    table = tables.open_table(path, delimiter, saved.get("delimiter"))
    rows = list(table.rows)
    table = table._replace(rows=iter(rows))
    examples, columns = examples_of(table, custom_dataset(layout=layout), "test")
    if len(columns.texts) != len(inputs):
        names = ", ".join(map(columns.name, columns.texts))
        raise UserError(
            f"{path}: found the text columns {names}, expected one for each of "
            f"{', '.join(inputs)}; name them with `text_columns`"
        )
    values = [
        {**dict(zip(inputs, (x.text_a, x.text_b or ""), strict=False)), "numbers": list(x.numbers)}
        for x in examples
    ]
    is_excel = table.format.kind == "excel"
    table_format = tables.TableFormat("delimited", ",") if is_excel else table.format
    cells = [row for _, row, _ in rows[columns.header :]]
    return Inputs(path, table_format, columns.names, cells, values)


def _check_lines(path, layout):
    """Raise UserError if the first line has column names, by the rule for tables."""
    line = next(files.read_lines(path), "").removeprefix("\ufeff").strip()
    names = [name.strip() for name in line.split("\t")]
    other = "`header=no` if the line is an example"
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            names = json_files.loads(line)
            other = "`json` to answer JSON objects"
    # A line of text may be a single word, such as "message".
    column_names = [*layout.given_names, *(ANY_TEXT if len(names) > 1 else ())]
    if isinstance(names, dict) or is_header(names, column_names):
        raise UserError(
            f"{path}, line 1: found the column names {', '.join(names)} in a file of lines; use "
            f"`header=yes` to read a table, or {other}"
        )


def answer_table(predictor, table, output_file, write):
    """Write a table with added columns of predictions, in the format of the input."""
    kind = table.format.kind
    if kind == "parquet" and not output_file:
        raise UserError("`output_file` is required, because the input is Parquet")
    ending = os.path.splitext(output_file or "")[1].lower()
    kinds = {".csv": "delimited", ".tsv": "delimited", ".gz": "gzip", **tables.ENDINGS}
    if kinds.get(ending, kind) != kind or (ending == ".tsv" and table.format.delimiter != "\t"):
        raise UserError(f"`output_file`: the answers are {table.format}; do not use {ending}")
    answers = itertools.chain.from_iterable(map(predictor, _chunks(table.inputs, "rows")))
    added = [*map(predictor.table_columns, answers)]
    if kind not in ("json", "json_lines"):
        separator = predictor.metadata.get("columns", {}).get("label_separator", ",")
        added = [_flat(row, separator if kind == "delimited" else None) for row in added]
    if taken := [name for name in added[0] if name in table.names]:
        raise UserError(f"{table.path} already has a column {taken[0]!r}; rename it")
    if not table.names:
        names = ", ".join(added[0])
        console.info("%s: no header (if it has one: `header=yes`); added: %s", table.path, names)
    if kind == "parquet":
        _write_parquet(table, added, output_file)
    elif output_file:
        files.write_text(output_file, _as_text(table, added))
    else:
        write(_as_text(table, added))


def _flat(row, separator):
    """Return the answer with a column for each probability, and nested values as text."""
    flat = {}
    for name, value in row.items():
        if name == "probabilities" and isinstance(value, dict):
            flat |= {f"probability_{label}": p for label, p in value.items()}
        elif name == "prediction" and isinstance(value, list):
            flat[name] = separator.join(value) if separator else value
        else:
            is_nested = isinstance(value, (list, dict))
            flat[name] = json.dumps(value, ensure_ascii=False) if is_nested else value
    return flat


def _as_text(table, added):
    kind, delimiter = table.format
    if kind != "delimited":
        # The cells do not show which names a row lacks.
        if kind == "json":
            rows = json_files.read(table.path, list)
        else:
            rows = map(json_files.loads, filter(str.strip, files.read_lines(table.path)))
        pairs = zip(rows, added, strict=True)
        lines = [json.dumps({**row, **more}, ensure_ascii=False) for row, more in pairs]
        return "[\n" + ",\n".join(lines) + "\n]\n" if kind == "json" else "\n".join([*lines, ""])
    header = [[*table.names, *added[0]]] if table.names else []
    # Rows may lack trailing empty cells.
    width = max(map(len, [table.names, *table.cells]))
    pairs = zip(table.cells, added, strict=True)
    rows = [[*cells, *[""] * (width - len(cells)), *more.values()] for cells, more in pairs]
    if delimiter == "\t":
        texts = ([str(x).replace("\t", " ") for x in row] for row in [*header, *rows])
        return "".join("\t".join(row) + "\n" for row in texts)
    writer = io.StringIO()
    csv.writer(writer, delimiter=delimiter, lineterminator="\n").writerows([*header, *rows])
    return writer.getvalue()


def _write_parquet(table, added, output_file):
    import pyarrow
    import pyarrow.parquet

    result = tables.read_parquet(table.path)
    for name in added[0]:
        result = result.append_column(name, pyarrow.array([row[name] for row in added]))
    with files.replacing(output_file) as (temporary,):
        data = io.BytesIO()
        pyarrow.parquet.write_table(result, data)
        with files.open_file(temporary, "wb") as writer:
            writer.write(data.getvalue())
