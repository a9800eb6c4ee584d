"""Flags and loop of the commands that answer lines of text."""

import contextlib
import itertools
import json
import os
import select
import sys

from absl import flags

import bert_tf
from bert_tf import console
from bert_tf.cli import table_answers

FLAGS = flags.FLAGS

flags.disclaim_key_flags()

# Maximum number of lines to answer together, sorted by length.
_CHUNK_SIZE = 2048


def define_line_flags():
    """Define the flags for input and output."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text file or table to answer. Default: standard input.",
    )
    flags.DEFINE_string("output_file", None, "File for the answers. Default: standard output.")
    flags.DEFINE_list(
        "text_columns",
        None,
        "Text columns of a table, by name or by number from 0. Default: the columns used for "
        "training, else the usual names.",
    )
    flags.DEFINE_string(
        "delimiter",
        None,
        "Delimiter of a table's columns: comma, semicolon, tab, pipe, or any other character. "
        "Default: detected.",
    )
    flags.DEFINE_bool("json", False, "Whether lines are JSON objects of inputs or columns.")
    flags.DEFINE_integer(
        "batch_size",
        None,
        "Maximum number of lines in a batch. Default: from 32 long lines to 256 short ones.",
        lower_bound=1,
    )


def check_line_flags():
    if FLAGS.input_file:
        bert_tf.io.files.require(FLAGS.input_file, "input_file")
    for name in ("text_columns", "delimiter"):
        if FLAGS[name].value and (FLAGS.json or not FLAGS.input_file):
            raise bert_tf.UserError(f"--{name} requires a table as --input_file, without --json")
    if FLAGS.output_file:
        bert_tf.io.files.check_writable(FLAGS.output_file, "output_file")
    elif sys.stdout is None:
        raise bert_tf.UserError("--output_file is required, because standard output is closed")


def answer_lines(predictor, title):
    """Answer the input that the flags name: plain lines as JSON lines, tables as tables."""
    if FLAGS.input_file and not FLAGS.json:
        columns = FLAGS.text_columns or ()
        table = table_answers.open_table(predictor, FLAGS.input_file, columns, FLAGS.delimiter)
        if table:
            table_answers.answer_table(predictor, table, FLAGS.output_file, console.write)
            return
    if FLAGS.input_file:
        lines = bert_tf.io.files.read_lines(FLAGS.input_file)
        chunks = iter(lambda: list(itertools.islice(lines, _CHUNK_SIZE)), [])
    else:
        chunks = stdin_chunks(predictor.inputs, title)
    with open_output() as write:
        num_invalid = _answer(predictor, chunks, write)
    if num_invalid:
        raise bert_tf.UserError(
            f"{num_invalid} lines were invalid; their answers contain the errors"
        )


def open_output():
    """Return a context with a function that writes to `output_file` or standard output."""
    path = FLAGS.output_file
    return bert_tf.io.files.writing_text(path) if path else contextlib.nullcontext(console.write)


def stdin_chunks(inputs, title):
    """Yield lists of the lines available on standard input, without waiting for more."""
    if sys.stdin is None:
        raise bert_tf.UserError("--input_file is required, because standard input is closed")
    if sys.stdin.isatty():
        names = " <tab> ".join(inputs)
        console.error(f"{title}: type {names}, one per line; Ctrl-D to end")
    stdin, data, rest = sys.stdin.fileno(), None, b""
    lines: list[bytes] = []
    invalid_lines, count = [], 0
    while data != b"":
        select.select([stdin], [], [])  # a non-blocking pipe may be empty
        try:
            data = os.read(stdin, 1 << 16)
        except OSError as error:
            raise bert_tf.UserError(f"standard input cannot be read ({error})") from None
        *complete, rest = (rest + data).split(b"\n")
        lines += complete if data or not rest else [rest]
        has_more = data and select.select([stdin], [], [], 0)[0]
        if lines and not (has_more and len(lines) < _CHUNK_SIZE):
            chunk = [line.decode("utf-8", "ignore") for line in lines]
            pairs = enumerate(zip(chunk, lines, strict=True), count + 1)
            invalid_lines += [number for number, (text, line) in pairs if text.encode() != line]
            count, lines = count + len(lines), []
            yield chunk
    if invalid_lines:
        console.warning(
            "standard input: %d lines are not valid UTF-8, the first is line %d; the invalid bytes "
            "were ignored", len(invalid_lines), invalid_lines[0],
        )  # fmt: skip


def _answer(predictor, chunks, write):
    num_invalid, number = 0, 0
    for chunk in chunks:
        rows, errors = [], {}
        for i, line in enumerate(chunk):
            number += 1
            line = line.removeprefix("\ufeff") if number == 1 else line
            try:
                rows.append(predictor.read(line.rstrip("\r\n"), FLAGS.json))
            except ValueError as error:
                errors[i] = {"error": f"line {number}: {error}"}
        valid = iter(predictor(rows))
        num_invalid += len(errors)
        answers = [errors.get(i) or next(valid) for i in range(len(chunk))]
        write("".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers))
    return num_invalid
