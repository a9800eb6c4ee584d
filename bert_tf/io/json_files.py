"""Validated reading of the JSON files that are saved next to models and data.

The type of a value is a `Kind`; the fields of an object are a dict from names to kinds, where a
name that ends in "?" may be missing:

>>> fields = {"labels": array(TEXT), "max_seq_length": integer(1), "lstm_size?": integer(1)}
>>> values = read_object("classifier.json", fields, written_by="run_classifier.py")
"""

import json
import math
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from bert_tf.errors import UserError
from bert_tf.io import files


class Kind(NamedTuple):
    """The type of a JSON value.

    Attributes:
      description: the type as a noun phrase, for messages.
      problem: function from a value to a message if it is not of this kind, else None.
    """

    description: str
    problem: Callable[[Any], str | None]


def _kind(description, is_valid):
    def problem(value):
        if is_valid(value):
            return None
        return f"is {quoted(value)}, expected {description}"

    return Kind(description, problem)


def quoted(value: Any, limit: int = 40) -> str:
    """Return a JSON value as printable text on one line, truncated to about `limit` characters."""
    text = json.dumps(value, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


TEXT = _kind("a text", lambda value: isinstance(value, str))
ANY = Kind("any value", lambda value: None)
BOOLEAN = _kind("true or false", lambda value: isinstance(value, bool))
OBJECT = _kind("an object", lambda value: isinstance(value, dict))


def integer(minimum: int, maximum: int = 2**63 - 1) -> Kind:
    """Return the kind of whole numbers within bounds."""
    description = f"a whole number of at least {minimum}"
    return _kind(description, lambda value: type(value) is int and minimum <= value <= maximum)


def _is_number(value):
    """Return whether a value is a float that is not NaN, or an integer that a float can hold."""
    if type(value) is int:
        return abs(value) <= sys.float_info.max
    return type(value) is float and not math.isnan(value)


NUMBER = _kind("a finite number", lambda value: _is_number(value) and math.isfinite(value))
# A threshold or a loss may be infinite.
ANY_NUMBER = _kind("a number", _is_number)


def choice(*values: Any) -> Kind:
    """Return the kind of a few texts or numbers."""
    names = ", ".join(json.dumps(value) for value in values)
    return _kind(
        f"one of {names}", lambda value: type(value) in map(type, values) and value in values
    )


def optional(kind: Kind) -> Kind:
    """Return the kind of values of `kind` and null."""

    def problem(value):
        message = None if value is None else kind.problem(value)
        # Not for a message about a part of the value.
        is_whole = message is not None and message.startswith("is ")
        return f"{message} or null" if is_whole else message

    return Kind(f"{kind.description} or null", problem)


def array(kind: Kind) -> Kind:
    """Return the kind of lists whose elements are all of `kind`."""
    is_list = _kind(f"a list, each element {kind.description}", lambda x: isinstance(x, list))

    def problem(value):
        if message := is_list.problem(value):
            return message
        messages = ((i, kind.problem(element)) for i, element in enumerate(value))
        return next((f"[{i}]{_joined(message)}" for i, message in messages if message), None)

    return Kind(is_list.description, problem)


def mapping(kind: Kind) -> Kind:
    """Return the kind of objects whose values are all of `kind`, whatever their names are."""

    def problem(value):
        if message := OBJECT.problem(value):
            return message
        messages = ((name, kind.problem(x)) for name, x in value.items())
        return next((f"[{json.dumps(name)}]{_joined(x)}" for name, x in messages if x), None)

    return Kind(f"an object, each value {kind.description}", problem)


def record(fields: dict[str, Kind]) -> Kind:
    """Return the kind of objects with these fields, and any others."""

    def problem(value):
        if message := OBJECT.problem(value):
            return message
        for name, kind in fields.items():
            key = name.removesuffix("?")
            if key not in value:
                if key == name:
                    return f".{key} is missing, expected {kind.description}"
            elif message := kind.problem(value[key]):
                return f".{key}{_joined(message)}"
        return None

    return Kind("an object", problem)


def _joined(message):
    """Separate a message from the name before it, unless it begins with a part of that name."""
    return message if message[0] in ".[" else f" {message}"


def of_type(hint: Any) -> Kind:
    """Return the kind of a type annotation; whole numbers are at least 1.

    >>> of_type(bool | None)
    """
    if isinstance(hint, types.UnionType):
        (hint,) = (x for x in typing.get_args(hint) if x is not type(None))
        return optional(of_type(hint))
    return {bool: BOOLEAN, int: integer(1), float: ANY_NUMBER, str: TEXT}[hint]


def loads(text: str | bytes) -> Any:
    """Parse JSON; unlike `json.loads`, raise JSONDecodeError for everything that is not valid."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None
    except ValueError as error:  # an integer with more digits than Python converts
        raise json.JSONDecodeError(str(error).partition(":")[0], "", 0) from None


def read(path: str, kind: Kind | None = None, written_by: str | None = None) -> Any:
    """Return the value of a JSON file.

    Args:
      path: the file.
      kind: the kind that its value must have, None for any.
      written_by: the program that writes such files, for messages.

    Raises:
      UserError: if the file cannot be read, is not JSON or is not of this kind; it names the line
        or the field.
    """
    source = f"; a file written by {written_by} was expected" if written_by else ""
    text = files.read_text(path)
    try:
        value = loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg}){source}") from None
    if kind and (message := kind.problem(value)):
        where = "the JSON " if message.startswith("is ") else ""
        raise UserError(f"{path}: {where}{message.removeprefix('.')}{source}")
    return value


def read_object(
    path: str, fields: dict[str, Kind] | None = None, written_by: str | None = None
) -> dict[str, Any]:
    """Return the object in a JSON file, whose `fields` are valid; see `read`."""
    return read(path, record(fields or {}), written_by)
