"""Conversion of the outputs of an exported model to answers, by task; without TensorFlow."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.errors import UserError


def json_value(value):
    """Convert an array or scalar for JSON; raise UserError if a number is not finite."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [json_value(x) for x in value]
    if isinstance(value, np.floating):
        if not np.isfinite(value):
            raise UserError(f"an output of the model is {value}, expected a finite number")
        return float(np.format_float_positional(value, precision=6, fractional=False))
    return value.item() if isinstance(value, np.generic) else value


def all_outputs(outputs, metadata):
    """Return all outputs of a row."""
    return {name: json_value(value) for name, value in sorted(outputs.items())}


def most_probable(outputs):
    """Return the index of the greatest of the probabilities (..., L)."""
    return outputs["probabilities"].argmax(-1)


def all_probable(outputs):
    """Return 1 for each of the probabilities (..., L) of at least 0.5, else 0."""
    return (outputs["probabilities"] >= 0.5).astype("float32")


def _label(outputs, metadata):
    probabilities = _by_label(outputs, metadata)
    return {"label": metadata["labels"][most_probable(outputs)], "probabilities": probabilities}


def _labels(outputs, metadata):
    probabilities = _by_label(outputs, metadata)
    labels = list(itertools.compress(probabilities, all_probable(outputs)))
    return {"labels": labels, "probabilities": probabilities}


def _by_label(outputs, metadata):
    values, labels = json_value(outputs["probabilities"]), metadata.get("labels", ())
    if len(labels) != len(values):
        raise UserError(
            f"the model has {len(values)} labels, expected {len(labels)} as in its model.json"
        )
    return dict(zip(labels, values, strict=True))


def _label_columns(answer):
    prediction, probabilities = answer.values()
    return {"prediction": prediction, "probabilities": probabilities}


def _choice(outputs, metadata):
    probabilities = json_value(outputs["probabilities"])
    return {"choice": int(most_probable(outputs)), "probabilities": probabilities}


def _entities(outputs, metadata):
    names = ("entity", "label", "start", "end", "score")
    rows = zip(*(json_value(outputs[name]) for name in names), strict=True)
    entities = (dict(zip(names, row, strict=True)) for row in rows)
    return {"entities": [entity for entity in entities if entity["start"] >= 0]}


def _masked_words(outputs, metadata):
    """Return the best words of each mask of a text, without padding."""
    size = int((outputs["probabilities"][:, 0] != 0).sum())
    columns = (json_value(outputs[name][:size]) for name in ("words", "probabilities"))
    return {"best": best_words(*columns)}


def best_words(words, probabilities):
    """Return a list of dicts for each mask, as a pipeline of transformers does."""
    return [
        [{"token_str": word, "score": score} for word, score in zip(*best, strict=True)]
        for best in zip(words, probabilities, strict=True)
    ]


def _token_vectors(outputs, metadata):
    """Return the outputs without the padding of texts shorter than others in the batch."""
    size = int(np.flatnonzero(outputs["tokens"])[-1]) + 1
    cut = {name: outputs[name][:size] for name in ("tokens", "sequence_output")}
    return all_outputs({**outputs, **cut}, metadata)


class Answer(NamedTuple):
    """The answers of a task.

    Attributes:
      of_outputs: function from the outputs for a row, a dict of arrays, and the contents of
        `model.json` to the answer, a dict for `json.dumps`.
      table_columns: function from an answer to the columns that it adds to a row of a table.
    """

    of_outputs: Callable = all_outputs
    table_columns: Callable = dict


# By the name of the task in `model.json`; `tasks.registry.register` adds other tasks.
ANSWERS = {
    "classification": Answer(_label, _label_columns),
    "multi_label": Answer(_labels, _label_columns),
    "regression": Answer(all_outputs, lambda answer: {"prediction": answer["score"]}),
    "multiple_choice": Answer(_choice),
    "token_classification": Answer(_entities),
    "fill_mask": Answer(_masked_words),
    "encoder": Answer(_token_vectors),
}
