"""Exceptions for mistakes in the user's input, and helpers for error messages."""

import re


class UserError(ValueError):
    """A mistake in the user's input, such as a flag or a file.

    The message is one sentence: the place, what was found, what was expected, and how to fix it.
    Scripts print it without a traceback and exit with status 1.
    """


class DamagedFile(UserError):
    """A file that exists but is corrupt or truncated."""


class Stopped(Exception):
    """A run was asked to stop and has saved its state; `status` is the exit status."""

    # EX_TEMPFAIL in sysexits.h: run the same command again.
    RESUME_ME = 75

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


_SURROGATE = re.compile("[\ud800-\udfff]")


def check_unicode(text, name="the text"):
    """Raise UserError if `text` contains a surrogate; `name` names the text in the message."""
    if not text.isascii() and (match := _SURROGATE.search(text)):
        raise UserError(
            f"{name}: found the lone surrogate {match.group()!a} at character {match.start()}"
        )


def is_out_of_memory(error):
    """Return whether an exception of Python, TensorFlow or JAX says that memory is full."""
    is_tensorflow = type(error).__name__ == "ResourceExhaustedError"
    is_jax = str(error).startswith("RESOURCE_EXHAUSTED")
    return isinstance(error, MemoryError) or is_tensorflow or is_jax


def not_finite(name, value, step, where):
    """Return the UserError for a loss or gradient that is not finite."""
    return UserError(f"{name} is {value} at step {step}{where}; a lower `learning_rate` may help")


# Other lines come before the informative one in TensorFlow's messages. It starts with the path to
# the failed op and ends with the op's name.
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
    """Return the repr of a value on one line, truncated to about `limit` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[:limit]}..."


def counted(count, noun):
    """Return a number and a noun in the right form: "1 column", "2 columns"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def abbreviate(names, limit=3):
    """Join the first `limit` names; count the rest: "a, b, c and 4 more"."""
    others = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + others


def reason(error):
    """Return the informative line of another library's exception."""
    message = getattr(error, "message", "") or getattr(error, "strerror", "") or error
    lines = (str(message).strip() or repr(error)).splitlines()
    line = next((line for line in map(str.strip, lines) if not _LINES_ABOVE.match(line)), lines[0])
    while prefix := _PREFIX.match(line):
        line = line[prefix.end() :]
    return _SUFFIX.sub("", line) or lines[0]
