"""Log messages, progress reports, errors, and what commands write to standard output.

Library code calls `console.info` and `console.warning`, which log to the standard logger
"bert_tf", so that a program that embeds the library can silence or redirect them. Scripts call
`show`.

Names in files and the messages of servers may contain control characters, with which a terminal
can be made to hide or rewrite its lines. Everything that reaches one passes `printable`.
"""

import contextlib
import io
import logging
import os
import re
import sys
import time
import weakref

from bert_tf.errors import UserError

_logger = logging.getLogger("bert_tf")

info = _logger.info


def warning(message, *args):
    """Log a warning and mark it as one."""
    _logger.warning("warning: " + message, *args)


# All but tabs and line breaks.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text):
    """Return a text with its control characters, except tabs and line breaks, as in JSON."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def error(message):
    """Print a message of one line to standard error."""
    print(printable(str(message)).replace("\n", "\\n"), file=sys.stderr)


def write(text):
    """Write answers to standard output: to a file or a pipe as they are, in UTF-8.

    Raises:
      UserError: if they cannot be written. If their reader, such as `head`, has ended, the process
        does too.
    """
    output = sys.stdout
    if output is None:
        raise UserError("standard output is closed")
    if isinstance(output, io.TextIOWrapper) and output.errors != "backslashreplace":
        # As in a file, whatever the locale. Lone surrogates become the escapes of JSON.
        output.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        output.write(printable(text) if output.isatty() else text)
        output.flush()
    except OSError as problem:
        # Otherwise Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        if isinstance(problem, BrokenPipeError):
            sys.exit(141)
        raise UserError(f"cannot write to standard output ({problem.strerror})") from None


def show(stream=None, rewrite=str):
    """Print all messages from level `info` upwards to standard error or another stream.

    `rewrite` is a function from a message to the line that is printed.
    """
    if not _logger.handlers:
        _logger.addHandler(_Handler(stream or sys.stderr, rewrite))
        _logger.propagate = False
    _logger.setLevel(logging.INFO)


class _Handler(logging.StreamHandler):
    """A handler that prints above progress bars, not into them."""

    def __init__(self, stream, rewrite):
        super().__init__(stream)
        self._rewrite = rewrite

    def format(self, record):
        return printable(self._rewrite(super().format(record)))

    def emit(self, record):
        if "tqdm" not in sys.modules:
            return super().emit(record)
        with sys.modules["tqdm"].tqdm.external_write_mode(file=self.stream):
            super().emit(record)


def duration(seconds):
    """Format seconds for people: 7.1 -> "7s", 3700 -> "1h01m"."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


# The time between two log lines of a `ProgressLog`.
SECONDS_PER_LINE = 5.0

# The progress bars that have been opened.
_bars: weakref.WeakSet = weakref.WeakSet()


class ProgressLog:
    """Reports the progress of a countable job.

    On a terminal that `show` prints to, as a progress bar. Everywhere else as a log line every
    few seconds: log files, and programs that capture the output, keep the carriage returns with
    which a bar redraws itself.

    >>> progress = ProgressLog("reading", "lines", total=1000)
    >>> for line in lines:
    ...     progress.add(1)
    >>> progress.done()

    Args:
      what: the job, first on the line: "tokenizing".
      unit: what is counted, in the plural: "examples".
      total: the final count, if known.
      initial: the count at the start, of an earlier process that was interrupted.
      is_brief: whether to log nothing about a job that takes less than `SECONDS_PER_LINE`.
    """

    def __init__(self, what, unit, total=None, initial=0, is_brief=False):
        self.what, self.unit, self.total = what, unit, total
        self.count = self._initial = initial
        self._is_brief = is_brief
        self._start = self._last = time.monotonic()
        self._bar = _open_bar(what, unit, total, initial)

    def add(self, n=1):
        """Count `n` more, and report if a report is due."""
        self.count += n
        if self._bar is not None:
            self._bar.update(int(self.count) - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last < SECONDS_PER_LINE:
            return
        self._last = now
        rate = max(self.count - self._initial, 1e-9) / (now - self._start)
        of_total = left = ""
        if self.total:
            of_total = f" of {int(self.total)}"
            left = f", {duration((self.total - self.count) / rate)} left"
        count = f"{int(self.count)}{of_total} {self.unit}"
        info("%s: %s, %.0f %s/s%s", self.what, count, rate, self.unit, left)

    def done(self):
        """Log the final count, the time and the rate."""
        if self._bar is not None:
            self._bar.close()
        seconds = max(time.monotonic() - self._start, 1e-9)
        if self._is_brief and seconds < SECONDS_PER_LINE:
            return
        rate = (self.count - self._initial) / seconds
        info(
            "%s: %d %s in %s, %.0f %s/s",
            self.what, self.count, self.unit, duration(seconds), rate, self.unit,
        )  # fmt: skip


def _open_bar(what, unit, total, initial):
    """Return a progress bar if `show` prints to a terminal, else None."""
    handler = next((h for h in _logger.handlers if isinstance(h, _Handler)), None)
    if not (handler and handler.stream.isatty() and _logger.isEnabledFor(logging.INFO)):
        return None
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no watching thread: processes may be forked while a bar is open

    # Smoothing 0 is the mean rate, as in the log lines.
    bar = Bar(
        desc=printable(what), unit=f" {unit}", total=total, initial=initial, file=handler.stream,
        leave=False, smoothing=0, mininterval=0.5, dynamic_ncols=True,
    )  # fmt: skip
    _bars.add(bar)
    return bar


@contextlib.contextmanager
def closing_bars():
    """Close the bars that an error leaves open, before its message is printed."""
    try:
        yield
    finally:
        for bar in list(_bars):
            bar.close()


@contextlib.contextmanager
def progress(what, source):
    """Report how much of a source has been read, an object with `total` and `done` in `unit`.

    >>> with console.progress("tokenizing", source) as on_progress:
    ...     for document in source:
    ...         on_progress()
    """
    log = ProgressLog(what, source.unit, total=source.total)
    yield lambda: log.add(source.done - log.count)
    log.done()


@contextlib.contextmanager
def only_errors(*names):
    """Silence other messages of loggers."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
