"""Exceptions that mean "the input is wrong", as opposed to "the program is wrong"."""


class UserError(ValueError):
    """A mistake in what the user gave: a flag, a file, a line, a tensor.

    The message is one sentence for that user: where, what was expected, what was found. Scripts
    print it without a traceback and exit with status 1.
    """


class DamagedFile(UserError):
    """A file that is there but cannot be read to its end."""


class Stopped(Exception):
    """A run was asked to stop, and what it has done is saved; `status` is its exit status."""

    # EX_TEMPFAIL of sysexits.h: try the same again.
    RESUME_ME = 75

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def reason(error):
    """The first line of what another library says; the rest is its own stack."""
    return (str(getattr(error, "message", "") or error).strip() or repr(error)).splitlines()[0]
