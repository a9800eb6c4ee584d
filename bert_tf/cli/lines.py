"""The flags of the scripts that answer lines of text, and how lines become answers.

Lines that are there together are answered together; each answer is a line of JSON, in the order of
the lines.
"""

import io
import itertools
import json
import os
import queue
import select
import sys
import threading

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.disclaim_key_flags()

# So many lines are sorted by length together, as far as they are there.
_WINDOW = 2048


def define_line_flags():
    """Lines in, answers out."""
    flags.DEFINE_string(
        "input_file", None, "File of lines; what is typed or piped in if not given."
    )
    flags.DEFINE_string("output_file", None, "File of answers; they are printed if not given.")
    flags.DEFINE_bool("json", False, "Whether a line is a JSON object, by the names of the inputs.")
    flags.DEFINE_integer("batch_size", 32, "The most lines to answer together.", lower_bound=1)


def check_line_flags():
    """Raises UserError if there is nothing to read, or the answers cannot be written."""
    if FLAGS.input_file:
        bert_tf.files.require(FLAGS.input_file, "input_file")
    elif sys.stdin is None:
        raise bert_tf.UserError("--input_file must be given: nothing can be typed here")
    if FLAGS.output_file:
        bert_tf.files.check_writable(FLAGS.output_file, "output_file")
    elif sys.stdout is None:
        raise bert_tf.UserError("--output_file must be given: nothing can be printed here")


def answer_lines(answerer, title):
    """Answers the lines that the flags name.

    Args:
      answerer: a `serving.Predictor` or `serving.Client`.
      title: what it is, for whoever types lines.

    Raises:
      UserError: at the end, if lines could not be read; their answers say why.
    """
    windows = _windows_of_file() if FLAGS.input_file else _windows_typed(answerer, title)
    if FLAGS.output_file:
        with bert_tf.files.writing_text(FLAGS.output_file) as write:
            bad = _answer(answerer, windows, write)
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the locale
        bad = _answer(answerer, windows, _print_now)
    if bad:
        raise bert_tf.UserError(f"{bad} lines could not be answered; their answers say why")


def _windows_of_file():
    lines = bert_tf.files.read_lines(FLAGS.input_file)
    while window := list(itertools.islice(lines, _WINDOW)):
        yield window


def _windows_typed(answerer, title):
    """Lists of lines that are there at the same time: a typed one is answered at once."""
    if sys.stdin.isatty():
        names = " <tab> ".join(answerer.inputs)
        print(f"{title}: type {names}, a line each; Ctrl-D ends", file=sys.stderr)
    coming, failed, damaged = queue.Queue(2 * _WINDOW), [], []

    def read_all():
        try:
            # A file of its own: the end of Python would wait for the lock of sys.stdin.
            with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
                for number, line in enumerate(_lines(raw), 1):
                    try:
                        text = line.decode("utf-8")
                    except UnicodeDecodeError:
                        damaged.append(number)
                        text = line.decode("utf-8", "ignore")
                    coming.put(text)
        except OSError as error:
            failed.append(error)
        finally:
            coming.put(None)

    threading.Thread(target=read_all, daemon=True).start()
    is_open = True
    while is_open:
        window = [coming.get()]
        while window[-1] is not None and len(window) < _WINDOW and not coming.empty():
            window.append(coming.get())
        if window[-1] is None:
            is_open = False
            window.pop()
        if window:
            yield window
    if failed:
        raise bert_tf.UserError(f"what is piped in cannot be read ({failed[0]})")
    if damaged:
        bert_tf.console.warning(
            "what is piped in: %d lines are not UTF-8, the first is line %d; bytes at fault are "
            "left out", len(damaged), damaged[0],
        )  # fmt: skip


def _lines(raw):
    """Yields the lines of an unbuffered file as they come, without their ends."""
    rest = b""
    while (data := raw.read(1 << 16)) != b"":
        if data is None:  # a pipe that does not block, and has nothing now
            select.select([raw], [], [])
            continue
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _print_now(text):
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # whoever read the answers has enough
            sys.exit(141)
        raise bert_tf.UserError(f"the answers cannot be printed ({error.strerror})") from None


def _answer(answerer, windows, write):
    """Writes the answer of each line; returns how many lines had none."""
    bad, number = 0, 0
    for window in windows:
        rows, errors = [], {}
        for i, line in enumerate(window):
            number += 1
            line = line.removeprefix("\ufeff") if number == 1 else line
            try:
                rows.append(answerer.read(line.rstrip("\r\n"), FLAGS.json))
            except ValueError as error:
                errors[i] = {"error": f"line {number}: {error}"}
        answers = iter(answerer(rows))
        bad += len(errors)
        found = [errors.get(i) or next(answers) for i in range(len(window))]
        write("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in found))
    return bad
