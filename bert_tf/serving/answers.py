"""Conversion of an exported model's outputs to JSON answers; does not need TensorFlow."""

import numpy as np

from bert_tf.errors import UserError, check_unicode
from bert_tf.training.task_spec import served_tasks


class Answers:
    """Converts the outputs of a task's exported model; this base class returns all outputs.

    Attributes:
      outputs: names of the outputs that the answers need.
      tensors: names of inputs and outputs. A model without `model.json` gets the first registered
        task whose `tensors` it all has; a task with () never matches.
    """

    outputs: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

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
    _, served = served_tasks().get(name, (None, None))
    return (served and served.answers) or Answers


def identify_task(tensors):
    """Return the name of the served task with these inputs and outputs, "" if there is none."""
    for name in served_tasks():
        expected = answers_class(name).tensors
        if expected and tensors >= set(expected):
            return name
    return ""


def plain(value):
    """Convert an array or scalar for JSON; raise UserError for numbers that are not finite."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [plain(x) for x in value]
    if isinstance(value, str):
        check_unicode(value, "an output of the model")
    elif isinstance(value, (float, np.floating)) and not np.isfinite(value):
        raise UserError(f"an output of the model is {value}, expected a finite number")
    if isinstance(value, np.floating):
        return float(np.format_float_positional(value, precision=6, fractional=False))
    return value.item() if isinstance(value, np.generic) else value
