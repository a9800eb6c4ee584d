"""Exceptions for mistakes in the input, as opposed to mistakes in the program."""

import re
import sys


class UserError(ValueError):
    """A mistake in the user's input: a flag, a file, a line, a tensor.

    The message is one sentence for the user: where the mistake is, what was expected and what was
    found. Scripts print it without a traceback and exit with status 1.
    """


class DamagedFile(UserError):
    """A file that exists but cannot be read to its end."""


class Stopped(Exception):
    """A run that was asked to stop and has saved its state; `status` is the exit status."""

    # EX_TEMPFAIL of sysexits.h: run the same command again.
    RESUME_ME = 75

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


_SURROGATE = re.compile("[\ud800-\udfff]")


def check_unicode(text, name="the text"):
    """Raise UserError if a str has a surrogate; `name` is its argument, field or place."""
    if not text.isascii() and (match := _SURROGATE.search(text)):
        raise UserError(
            f"{name}: expected Unicode text, character {match.start()} is the lone surrogate "
            f"{match.group()!a}"
        )


def out_of_memory_errors():
    """Return the exception classes of a lack of memory; TensorFlow's only if it is imported."""
    loaded = sys.modules.get("tensorflow")
    has_errors = hasattr(loaded, "errors")
    return (MemoryError, loaded.errors.ResourceExhaustedError) if has_errors else (MemoryError,)


def not_finite(name, value, step, where):
    """Return the UserError of a training step whose loss or gradient is not finite."""
    return UserError(f"{name} is {value} at step {step}{where}; a lower `learning_rate` may help")


# TensorFlow wraps the informative line of a message: with lines above it, with the path to the
# failed operation in front of it, and with the name of the operation after it.
_LINES_ABOVE = re.compile(
    r"Graph execution error:|Detected at node |<stack traces unavailable>|File \"|"
    r"\d+ root error\(s\) found|$"
)
_PREFIX = re.compile(
    r"\(\d+\) [A-Z_]+:\s*|\{\{function_node .*?\}\}\s*|"
    r"Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)
_SUFFIX = re.compile(r"\s*\[Op:\w+\].*$")


def shown(value, limit=40):
    """Return a value as Python writes it, on one line of about `limit` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, or an object of any class
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[:limit]}..."


def abbreviate(names, limit=3):
    """Return the first `limit` names as text, and the number of the others."""
    others = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + others


def reason(error):
    """Return the informative line of an exception that another library raised."""
    message = getattr(error, "message", "") or getattr(error, "strerror", "") or error
    lines = (str(message).strip() or repr(error)).splitlines()
    line = next((line for line in map(str.strip, lines) if not _LINES_ABOVE.match(line)), lines[0])
    while prefix := _PREFIX.match(line):
        line = line[prefix.end() :]
    return _SUFFIX.sub("", line) or lines[0]
