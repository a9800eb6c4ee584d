"""Conversion of an exported model's outputs to JSON answers."""

import numpy as np

from bert_tf.errors import UserError


class Answers:
    """Converts the outputs of a task's exported model; this base class returns all outputs."""

    @staticmethod
    def answer(outputs, metadata):
        """Return the answer to one row, given a dict of its outputs, as a dict for `json.dumps`."""
        return {name: plain(value) for name, value in sorted(outputs.items())}

    @staticmethod
    def table_columns(answer, metadata):
        """Return the columns that an answer adds to a row of a table, as a dict."""
        return answer


def answers_class(name):
    """Return the `Answers` class of a served task, or the base class for an unknown name."""
    # Imported on use, because the tasks import this package.
    from bert_tf.tasks.registry import served_tasks

    _, served = served_tasks().get(name, (None, None))
    return (served and served.answers) or Answers


def plain(value):
    """Convert an array or scalar for JSON; raise UserError for numbers that are not finite."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [plain(x) for x in value]
    if isinstance(value, np.floating):
        if not np.isfinite(value):
            raise UserError(f"an output of the model is {value}, expected a finite number")
        return float(np.format_float_positional(value, precision=6, fractional=False))
    return value.item() if isinstance(value, np.generic) else value
