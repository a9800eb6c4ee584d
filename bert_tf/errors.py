"""The one exception that means "the input is wrong", as opposed to "the program is wrong"."""


class UserError(ValueError):
    """A mistake in what the user gave: a flag, a file, a line, a tensor.

    The message is one sentence for that user: where, what was expected, what was found. Scripts
    print it without a traceback and exit with status 1.
    """


def reason(error):
    """The first line of what another library says; the rest is its own stack."""
    return (str(getattr(error, "message", "") or error).strip() or repr(error)).splitlines()[0]
