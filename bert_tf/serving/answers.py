"""Answers in JSON, made of the outputs of an exported model; imported without TensorFlow."""

import numpy as np

from bert_tf.errors import UserError, check_unicode
from bert_tf.training.task_spec import served_tasks


class Answers:
    """Makes the answers of a kind of exported model; this base class returns all outputs.

    Attributes:
      outputs: names of the outputs that the answers are made of.
      tensors: names of inputs and outputs by which such a model is recognized without its
        `model.json`: the first kind all of whose `tensors` a model has, in the order of the
        registry, is that of the model. Empty if there are no such names.
    """

    outputs: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    @staticmethod
    def answer(outputs, metadata):
        """Return the answer to one row, a dict that `json.dumps` accepts.

        Args:
          outputs: dict from the names of the model's outputs to arrays or scalars.
          metadata: the dict of the `model.json`.

        Raises:
          UserError: if they do not fit together.
        """
        return {name: plain(value) for name, value in sorted(outputs.items())}

    @staticmethod
    def table_columns(answer, metadata):
        """Return the columns that an answer adds to a row of a table, as a dict."""
        return answer


def answers_of(task):
    """Return the `Answers` class of a kind of exported model; `Answers` for an unknown one."""
    _, served = served_tasks().get(task, (None, None))
    return (served and served.answers) or Answers


def recognize(tensors):
    """Return the kind of model that has these inputs and outputs, "" if none is known."""
    for name in served_tasks():
        expected = answers_of(name).tensors
        if expected and tensors >= set(expected):
            return name
    return ""


def plain(value):
    """Convert an array or scalar to lists, numbers and strings for JSON.

    Raises:
      UserError: for what JSON does not have: numbers that are not finite, and lone surrogates.
    """
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
