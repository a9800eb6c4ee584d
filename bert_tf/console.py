"""What the library tells a person while it works.

Library code calls `console.info` and `console.warning`; both go to the standard logger "bert_tf",
so that a program which embeds the library can silence or redirect them. Scripts call `show`.
"""

import contextlib
import logging
import sys
import time

_logger = logging.getLogger("bert_tf")

info = _logger.info


def warning(message, *args):
    """Says what may not be what the user wants, marked as such."""
    _logger.warning("warning: " + message, *args)


def show(stream=None, rewrite=str):
    """Print everything from `info` upwards, one plain line each.

    Args:
      stream: where to, None for standard error.
      rewrite: function from a message to the one to print.
    """
    if not _logger.handlers:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(_Formatter(rewrite))
        _logger.addHandler(handler)
        _logger.propagate = False
    _logger.setLevel(logging.INFO)


class _Formatter(logging.Formatter):
    def __init__(self, rewrite):
        super().__init__("%(message)s")
        self._rewrite = rewrite

    def format(self, record):
        return self._rewrite(super().format(record))


def duration(seconds):
    """Seconds as people read them: 7.1 -> "7s", 3700 -> "1h01m"."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


class Ticker:
    """Reports the progress of a countable job, at most once every `every` seconds.

    >>> ticker = Ticker("reading", "lines", total=1000)
    >>> for line in lines:
    ...     ticker.add(1)
    >>> ticker.done()
    """

    def __init__(self, what, unit, total=None, every=5.0):
        """Starts the clock.

        Args:
          what: the job, as the line begins: "tokenizing".
          unit: what is counted, in the plural: "examples".
          total: how many there are, if that is known.
          every: seconds between two lines.
        """
        self.what, self.unit, self.total, self.every = what, unit, total, every
        self.count = 0
        self._start = self._last = time.monotonic()

    def add(self, n=1):
        """Counts `n` more, and prints a line when one is due."""
        self.count += n
        now = time.monotonic()
        if now - self._last < self.every:
            return
        self._last = now
        rate = max(self.count, 1e-9) / (now - self._start)
        if self.total:
            left = duration((self.total - self.count) / rate)
            info(
                "%s: %d of %d %s, %.0f %s/s, %s left",
                self.what, self.count, self.total, self.unit, rate, self.unit, left,
            )  # fmt: skip
        else:
            info("%s: %d %s, %.0f %s/s", self.what, self.count, self.unit, rate, self.unit)

    def done(self):
        """Prints the closing line: how many, in what time, how fast."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        info(
            "%s: %d %s in %s, %.0f %s/s",
            self.what, self.count, self.unit, duration(seconds), self.count / seconds, self.unit,
        )  # fmt: skip


@contextlib.contextmanager
def progress(what, source):
    """Reports how far a source with `total`, `unit`, `done` is read; yields what is to be called.

    >>> with console.progress("tokenizing", source) as told:
    ...     for document in source:
    ...         told()
    """
    ticker = Ticker(what, source.unit, total=source.total)
    yield lambda: ticker.add(source.done - ticker.count)
    ticker.done()
