"""Log messages, progress, errors and the output of commands.

The library logs with `console.info`, `console.notice` and `console.warning` to the logger
"bert_tf". Scripts call `show` to print the messages. File names and server messages may contain
control characters that hide or rewrite terminal output; `printable` escapes them.
"""

import contextlib
import io
import logging
import os
import re
import sys
import tempfile
import time
import weakref

from bert_tf.errors import UserError

_logger = logging.getLogger("bert_tf")

info = _logger.info


def warning(message, *args):
    """Log a message at level WARNING, prefixed with "warning: "."""
    _logger.warning("warning: " + message, *args)


_shown_once: set[str] = set()


def notice(message, *args):
    """Log a message that programs see by default, once per process."""
    if (text := message % args) not in _shown_once:
        _shown_once.add(text)
        _logger.warning("%s", text)


# All except tabs and line breaks.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text):
    """Escape control characters, except tabs and line breaks, as JSON does."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def error(message):
    """Print a message to standard error, on one line, after removing all progress bars."""
    for bar in list(_bars):
        bar.close()
    print(printable(str(message)).replace("\n", "\\n"), file=sys.stderr)


def write(text):
    """Write text to standard output, in UTF-8.

    On a terminal, escape control characters and remove all progress bars.
    If the reader of a pipe, such as `head`, has exited, this process exits too.
    """
    output = sys.stdout
    if output is None:
        raise UserError("standard output is closed")
    if isinstance(output, io.TextIOWrapper) and output.errors != "backslashreplace":
        # Always UTF-8, regardless of the locale. Lone surrogates are escaped as in JSON.
        output.reconfigure(encoding="utf-8", errors="backslashreplace")
    for bar in list(_bars) if output.isatty() else ():
        bar.close()
    try:
        output.write(printable(text) if output.isatty() else text)
        output.flush()
    except OSError as problem:
        # Without this, Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        if isinstance(problem, BrokenPipeError):
            sys.exit(141)
        raise UserError(f"cannot write to standard output ({problem.strerror})") from None


def show(stream=None, rewrite=str):
    """Print messages of level INFO and above to `stream`, after `rewrite`."""
    if not _logger.handlers:
        _logger.addHandler(_Handler(stream or sys.stderr, rewrite))
        _logger.propagate = False
    _logger.setLevel(logging.INFO)


class _Handler(logging.StreamHandler):
    """Prints messages above open progress bars."""

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
    """Format seconds for humans: 7.1 -> "7s", 3700 -> "1h01m"."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


SECONDS_PER_LINE = 5.0

_bars: weakref.WeakSet = weakref.WeakSet()


class ProgressLog:
    """Reports the progress of a countable job, as a progress bar or a line every few seconds.

    `what` is a label such as "tokenizing", `unit` a plural noun, and `total` the final count or
    None. With `is_brief`, nothing is logged if the job takes less than `SECONDS_PER_LINE`.
    """

    def __init__(self, what, unit, total=None, is_brief=False):
        self.what, self.unit, self.total, self._is_brief = what, unit, total, is_brief
        self.count = 0
        self._start = self._last = time.monotonic()
        self._bar = _open_bar(what, unit, total)

    def add(self, n=1):
        """Add `n` to the count, and report it at intervals."""
        self.count += n
        if self._bar is not None:
            self._bar.update(int(self.count) - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last < SECONDS_PER_LINE:
            return
        self._last = now
        rate = max(self.count, 1e-9) / (now - self._start)
        count = str(int(self.count))
        left = ""
        if self.total:
            count += f" of {int(self.total)}"
            left = f", {duration((self.total - self.count) / rate)} left"
        info("%s: %s %s, %.0f %s/s%s", self.what, count, self.unit, rate, self.unit, left)

    def done(self):
        """Log the final count, the time and the rate."""
        if self._bar is not None:
            self._bar.close()
        seconds = max(time.monotonic() - self._start, 1e-9)
        if self._is_brief and seconds < SECONDS_PER_LINE:
            return
        counts = f"{self.count} {self.unit} in {duration(seconds)}"
        info("%s: %s, %.0f %s/s", self.what, counts, self.count / seconds, self.unit)


def _open_bar(what, unit, total):
    """Open a progress bar if `show` prints to a terminal, else return None."""
    handler = next((h for h in _logger.handlers if isinstance(h, _Handler)), None)
    if not (handler and handler.stream.isatty() and _logger.isEnabledFor(logging.INFO)):
        return None
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no monitor thread: processes may be forked while a bar is open

    # smoothing=0 shows the mean rate, like the log lines.
    style = {"leave": False, "smoothing": 0, "mininterval": 0.5, "dynamic_ncols": True}
    bar = Bar(desc=printable(what), unit=f" {unit}", total=total, file=handler.stream, **style)
    _bars.add(bar)
    return bar


@contextlib.contextmanager
def progress(what, source):
    """Report how much of a source was read, from its attributes `total`, `done` and `unit`."""
    log = ProgressLog(what, source.unit, total=source.total)
    yield lambda: log.add(source.done - log.count)
    log.done()


@contextlib.contextmanager
def at_level(level, *names):
    """Log nothing below a level, such as "ERROR", by the loggers `names` within the context."""
    with contextlib.ExitStack() as stack:
        for logger in map(logging.getLogger, names):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(max(logging.getLevelName(level), logger.getEffectiveLevel()))
        yield


_LOG_LINE = re.compile(
    rb"(?m)^(WARNING: All log|To enable the|(\S+ \S+: )?[IWE].*\.(cc|h):\d+\]).*\n?"
)


@contextlib.contextmanager
def without_tensorflow_messages():
    """Hide the log lines of TensorFlow in the context, unless TF_CPP_MIN_LOG_LEVEL is 0.

    When it starts, TensorFlow logs lines about oneDNN and missing GPUs at any level
    (tensorflow/tensorflow issue 100442). Other lines are shown at the end of the context.
    """
    # Later, show only errors, unless the user has set a level.
    shows_all = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2") == "0"
    if shows_all or sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            captured.seek(0)
            os.write(2, _LOG_LINE.sub(b"", captured.read()))
