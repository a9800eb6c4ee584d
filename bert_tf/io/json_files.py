"""Write JSON files, read them, and check them against type annotations.

The type of an object is a dict from field name to type. A field whose name ends in "?" is optional,
and unknown fields are allowed.

>>> fields = {"labels": list[str], "max_seq_length": Positive, "doc_stride?": Positive | None}
>>> values = read("classifier.json", fields, written_by="run_classifier.py")
"""

import dataclasses
import json
import math
import sys
import types
import typing
from typing import Annotated, Any

from bert_tf.errors import UserError
from bert_tf.io import files

# TensorFlow's integers have 64 bits.
_MAX_INTEGER = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a value, for `typing.Annotated`. Bounded numbers must also be finite."""

    minimum: float | None = None
    maximum: float | None = None
    choices: tuple | None = None
    is_finite: bool = False


Count = Annotated[int, Limits(minimum=0)]
Positive = Annotated[int, Limits(minimum=1)]
# Other floats, such as thresholds, may be infinite. NaN is never valid.
Finite = Annotated[float, Limits(is_finite=True)]
NotNegative = Annotated[float, Limits(0.0)]
Fraction = Annotated[float, Limits(0.0, 1.0)]

_DESCRIPTIONS = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
_DESCRIPTIONS |= {dict: "an object", list: "a list", tuple: "a list"}


def quoted(value: Any, limit: int = 40) -> str:
    """Return a value as printable JSON, truncated to about `limit` characters."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    text = text if text.isprintable() else json.dumps(value, default=repr)
    return text if len(text) <= limit else f"{text[:limit]}..."


def describe(hint: Any) -> str:
    """Return a noun phrase for a type annotation without None."""
    hint, limits, _ = unwrap_annotation(hint)
    if limits.choices:
        return f"one of {', '.join(map(str, limits.choices))}"
    kind = _kind(hint)
    text = _DESCRIPTIONS.get(kind) or f"a {kind.__name__}"
    low, high = limits.minimum, limits.maximum
    if kind is float and (limits.is_finite or low is not None) and high is None:
        text = "a finite number"
    if low is not None and high is not None:
        return f"{text} between {low:g} and {high}"
    if low is not None or high is not None:
        return f"{text} of at {'most' if low is None else 'least'} {high if low is None else low}"
    if kind in (list, tuple) and (elements := typing.get_args(hint)):
        return f"{text}, each element {describe(elements[0])}"
    return text


def is_valid(value: Any, hint: Any) -> bool:
    """Return whether a value has the annotated type."""
    return _find_error(value, hint)[1] is None


def _find_error(value, hint):
    """Return the path of the first invalid part and the problem; ("", None) for a valid value."""
    annotation = hint
    hint, limits, is_optional = unwrap_annotation(annotation)
    if hint is Any or (value is None and is_optional):
        return "", None
    kind, arguments = _kind(hint), typing.get_args(hint)
    if hasattr(kind, "_fields") and isinstance(value, kind):
        value = value._asdict()
    if not _is_of_kind(value, kind, limits):
        end = " or null" if is_optional else ""
        return "", f"is {quoted(value)}, expected {describe(annotation)}{end}"
    children: list = []
    if kind in (list, tuple) and arguments:
        children = [(f"[{i}]", element, arguments[0]) for i, element in enumerate(value)]
    elif kind is dict and arguments:
        children = [(f"[{quoted(key)}]", x, arguments[1]) for key, x in value.items()]
    for name, field in _fields(hint).items():
        key = name.removesuffix("?")
        if key in value:
            children.append((f".{key}", value[key], field))
        elif key == name:
            return f".{key}", f"is missing, expected {describe(field)}"
    for place, child, field in children:
        path, problem = _find_error(child, field)
        if problem:
            return place + path, problem
    return "", None


def check(value: Any, hint: Any, start: str = "", end: str = "", name: str = "the JSON") -> None:
    """Raise UserError, with text at its start and end, unless a value has the annotated type.

    The message names the invalid part, such as `labels[1]`, or the `name` of the whole value.
    """
    path, problem = _find_error(value, hint)
    if problem:
        raise UserError(f"{start}{path.removeprefix('.') or name} {problem}{end}")


def unwrap_annotation(hint):
    """Split an annotation into (type, `Limits`, whether None is valid)."""
    limits, is_optional = Limits(), False
    while True:
        if typing.get_origin(hint) is Annotated:
            hint, limits = typing.get_args(hint)[:2]
        elif typing.get_origin(hint) in (types.UnionType, typing.Union):
            (hint,) = (x for x in typing.get_args(hint) if x is not type(None))
            is_optional = True
        else:
            return hint, limits, is_optional


def _kind(hint):
    return dict if isinstance(hint, dict) else typing.get_origin(hint) or hint


def _fields(hint):
    if isinstance(hint, dict):
        return hint
    optional = getattr(hint, "_field_defaults", ())
    hints = typing.get_type_hints(hint, include_extras=True) if hasattr(hint, "_fields") else {}
    return {f"{name}?" if name in optional else name: x for name, x in hints.items()}


def _is_of_kind(value, kind, limits):
    if kind in (int, float):
        low, high = limits.minimum, limits.maximum
        if type(value) not in (int, kind):
            return False
        is_finite = abs(value) <= (_MAX_INTEGER if kind is int else sys.float_info.max)
        needs_finite = kind is int or limits.is_finite or (low, high) != (None, None)
        if not is_finite and (needs_finite or type(value) is int or math.isnan(value)):
            return False
        if (low is not None and value < low) or (high is not None and value > high):
            return False
    else:
        classes = dict if hasattr(kind, "_fields") else kind
        if not isinstance(value, (list, tuple) if kind in (list, tuple) else classes):
            return False
    choices = limits.choices
    return not choices or (type(value) in map(type, choices) and value in choices)


def loads(text: str | bytes) -> Any:
    """Parse JSON. Unlike `json.loads`, raise JSONDecodeError for all invalid input."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:  # an integer with too many digits
        raise json.JSONDecodeError(str(error).partition(":")[0], "", 0) from None


def read(path: str, hint: Any = Any, written_by: str | None = None) -> Any:
    """Read a JSON file and check it against `hint`; UserError names the line or the field."""
    note = f"; expected a file written by {written_by}" if written_by else ""
    text = files.read_text(path)
    try:
        value = loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: invalid JSON ({error.msg}){note}") from None
    check(value, hint, f"{path}: ", note)
    return value


def write(path: str, value: Any, **options: Any) -> None:
    """Write a value as indented JSON; `options` are arguments of `json.dumps`."""
    text = json.dumps(value, indent=2, ensure_ascii=False, **options)
    files.write_text(path, f"{text}\n")
