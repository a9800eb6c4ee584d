"""Configurations as dataclasses whose options are declared once.

The declaration of an option defines its validation, flag, `--help`, JSON entry, resume check and
docstring. pydantic would need the same declarations, its messages do not say what was expected in
one clause, and it has no `requires`.

>>> @dataclasses.dataclass(frozen=True)
... class WindowConfig(Config):
...     "How to split long texts into windows."
...     doc_stride: Positive = option(128, "Stride between windows, in tokens.")
>>> WindowConfig(doc_stride=0)
UserError: `doc_stride=0`: expected an integer of at least 1
"""

import dataclasses
import difflib
import functools
import inspect
import textwrap
import typing
from typing import Annotated, Any

from bert_tf.errors import UserError, shown
from bert_tf.io import files, json_files

REQUIRED: Any = dataclasses.MISSING


def option(
    default, help, *, choices=None, fixed=False, requires=None, excludes=(), flag_default=None,
    repeated=False,
):  # fmt: skip
    """Declare an option of a `Config`, whose type has the limits of a number.

    Args:
      default: the default; REQUIRED if there is none, `dict` for an empty dict.
      help: one or two sentences for `--help` and the docstring; None for a value without a flag.
      choices: the valid values.
      fixed: whether a resumed run must use the same value.
      requires: the option that allows other values than the default: its name, or a tuple of its
        name and the values that allow them.
      excludes: the options that cannot be combined with this one.
      flag_default: the default in `--help`, if None means a value that depends on the model.
      repeated: whether the flag may be repeated.
    """
    default = {"default_factory": dict} if default is dict else {"default": default}
    requires = (requires,) if isinstance(requires, str) else requires
    metadata = {"help": help, "flag_default": flag_default, "repeated": repeated, "fixed": fixed}
    metadata |= {"choices": choices and tuple(choices), "requires": requires, "excludes": excludes}
    return dataclasses.field(**default, metadata=metadata)


def check_value(name, value, hint):
    """Raise UserError unless the value of an option or an argument has the annotated type."""
    if not json_files.is_valid(_without_numpy(value), hint):
        text = shown(value).strip("'\"")
        raise UserError(f"`{name}={text}`: expected {json_files.describe(hint)}")


def unknown_option(name, known, owner):
    """Return the UserError for an option that `owner` does not have; name a similar `known` one."""
    advice = "".join(f"; a similar one is `{x}`" for x in difflib.get_close_matches(name, known, 1))
    return UserError(f"`{name}` is not an option of {owner}{advice}")


def _without_numpy(value):
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


@functools.cache
def hints_of(cls):
    """Return a dict from field to its type, annotated with the choices of the option."""
    hints = typing.get_type_hints(cls, include_extras=True)
    choices = {x.name: x.metadata.get("choices") for x in dataclasses.fields(cls)}
    return {
        name: Annotated[hints[name], json_files.Limits(choices=x)] if x else hints[name]
        for name, x in choices.items()
    }


@dataclasses.dataclass(frozen=True)
class Config:
    """Base class of configurations: frozen dataclasses of `option`s and nested configs.

    The constructor validates all values. `given` has the names of its arguments;
    `dataclasses.replace` keeps them.
    """

    given: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)

    def __new__(cls, *args, given=None, **values):
        config = super().__new__(cls)
        if given is None:
            names = [field.name for field in dataclasses.fields(cls) if not field.kw_only]
            given = {*names[: len(args)], *values}
        object.__setattr__(config, "given", frozenset(given))
        return config

    def __init_subclass__(cls):
        """Add the help of each option to the docstring."""
        fields = {
            name: field
            for base in reversed(cls.__mro__)
            for name, field in {**getattr(base, "__dataclass_fields__", {}), **vars(base)}.items()
            if isinstance(field, dataclasses.Field)
        }
        lines = [
            textwrap.fill(f"  {name}: {field.metadata['help']}", 90, subsequent_indent="    ")
            for name, field in fields.items()
            if field.metadata.get("help")
        ]
        if lines and cls.__doc__:
            text = inspect.cleandoc(cls.__doc__)
            cls.__doc__ = text + "\n\nAttributes:\n" + "\n".join(lines) + "\n"

    def __post_init__(self, given):
        """Expand paths, convert lists to tuples and NumPy scalars to Python numbers; validate."""
        for name, hint in hints_of(type(self)).items():
            value = files.expand_home(getattr(self, name), name)
            value = tuple(value) if isinstance(value, (list, range)) else _without_numpy(value)
            object.__setattr__(self, name, value)
            check_value(name, value, hint)
        self.validate()

    @classmethod
    def pop_from(cls, options, **values):
        """Remove the attributes of this config from `options`; return the config with them.

        `values` are other attributes, None for the default.
        """
        given = {name: value for name, value in values.items() if value is not None}
        given |= {name: options.pop(name) for name in hints_of(cls).keys() & options.keys()}
        return cls(**given)

    def with_options(self, **values):
        """Return a copy with changed values, which are recorded as set by the user."""
        return dataclasses.replace(self, given=self.given | values.keys(), **values)

    def validate(self):
        """Raise UserError if a combination of valid options is invalid."""
        self.check_requirements()

    def check_requirements(self):
        """Raise UserError if a value lacks the option that enables it, or has one that it excludes.

        Only values that are given and differ from the defaults need or exclude other options. An
        excluded option must not be given, except as false or 0.
        """
        for field in dataclasses.fields(self):
            if not self.is_given(field.name) or getattr(self, field.name) == field.default:
                continue
            for other in field.metadata.get("excludes", ()):
                if self.is_given(other) and getattr(self, other):
                    raise UserError(f"`{other}` cannot be combined with `{field.name}`")
            if not self._applies(field):
                other, *values = field.metadata["requires"]
                values = "=" + " or ".join(map(str, values)) if values else ""
                raise UserError(f"`{field.name}` requires `{other}{values}`")

    def is_given(self, name):
        """Return whether an option was passed to the constructor, with a value."""
        return name in self.given and getattr(self, name) not in (None, ())

    def _applies(self, field):
        """Return whether an option has an effect."""
        if not (requires := field.metadata.get("requires")):
            return True
        name, *values = requires
        value = getattr(self, name)
        return value in values if values else bool(value)

    def to_flags(self) -> dict[str, Any]:
        """Return the options that have an effect, as a dict from flag to value."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Config):
                values |= value.to_flags()
            elif field.metadata.get("help") and value is not None and self._applies(field):
                values[field.name] = to_json_value(value)
        return values


def to_json_value(value):
    """Return a value with lists and dicts in place of tuples and named tuples, for JSON."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: to_json_value(x) for name, x in value.items()}
    return [to_json_value(x) for x in value] if isinstance(value, (list, tuple)) else value


def from_json_value(value, hint):
    """Convert a valid value of a JSON file to the type of its annotation."""
    kind = json_files.unwrap_annotation(hint)[0]
    if isinstance(value, list):
        element = next(iter(typing.get_args(kind)), Any)
        return tuple(from_json_value(x, element) for x in value)
    if isinstance(value, dict) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return kind(**{x: from_json_value(value[x], y) for x, y in hints.items() if x in value})
    if isinstance(value, dict):
        return {name: from_json_value(x, Any) for name, x in value.items()}
    return value
