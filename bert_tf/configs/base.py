"""Configurations as dataclasses whose options are declared once.

The declaration of an option defines its validation, flag, JSON entry, resume check and docstring.

>>> @dataclasses.dataclass(frozen=True)
... class WindowConfig(Config):
...     "How to split long texts into windows."
...     doc_stride: int = option(128, "Stride between windows, in tokens.", minimum=1, saved=True)
"""

import copy
import dataclasses
import functools
import inspect
import os
import textwrap
import typing
from typing import Annotated, Any, ClassVar

from bert_tf.errors import UserError, shown
from bert_tf.io import json_files


def option(
    default, help, *, choices=None, minimum=None, maximum=None,
    saved=False, fixed=False, inferred=False, requires=None,
):  # fmt: skip
    """Declare an option of a `Config`.

    Args:
      default: the default. None means "not given": the value is determined elsewhere.
      help: one or two sentences for `--help` and the docstring; None for a value without a flag.
      choices: the valid values.
      minimum: the smallest valid number.
      maximum: the largest valid number.
      saved: whether the value is saved with the weights. If it is not given, the attribute is None
        until `Config.resolve` sets it to the saved value or the default.
      fixed: whether a resumed run must use the same value.
      inferred: whether the value is inferred from the data if it is not given. `resolve` skips it.
      requires: the option that enables this one: its name, or a tuple of its name and the enabling
        values.
    """
    return dataclasses.field(
        default=None if saved and help and not inferred else default,
        metadata={
            "help": help,
            "default": default,
            "limits": json_files.Limits(minimum, maximum, choices and tuple(choices)),
            "saved": saved,
            "fixed": fixed,
            "inferred": inferred,
            "requires": (requires,) if isinstance(requires, str) else requires,
        },
    )


def derived(default, **properties):
    """Declare a value without a flag, which is derived from data or files; see `option`."""
    return option(default, None, **properties)


@functools.cache
def _hints(cls):
    return typing.get_type_hints(cls, include_extras=True)


@dataclasses.dataclass(frozen=True)
class Config:
    """Base class of configurations: frozen dataclasses of `option`s and nested configs."""

    # `--help` title of the options, and (title, names) for options under other titles.
    GROUP: ClassVar[str] = "Data"
    GROUPS: ClassVar[tuple] = ()

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

    def __post_init__(self):
        """Convert paths to str, lists to tuples and NumPy scalars to Python numbers."""
        for name in (field.name for field in dataclasses.fields(self)):
            value = getattr(self, name)
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
            elif isinstance(value, list):
                value = tuple(value)
            elif type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
                value = value.item()
            object.__setattr__(self, name, value)

    @classmethod
    def take(cls, options: dict[str, Any], **values: Any) -> Any:
        """Remove the attributes of this config from `options`; return the config with them.

        `values` are other attributes, None for the default.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        given = {name: value for name, value in values.items() if value is not None}
        given |= {name: options.pop(name) for name in names & options.keys()}
        return cls(**given).validate()

    def validate(self):
        """Check types, choices, bounds and `requires` of all options; return self."""
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            hint = _hint(type(self), field)
            if value is None and field.default is None:
                # Options without "| None" are required.
                if field.metadata.get("default", "") is None and json_files.problem(None, hint):
                    raise UserError(f"`{name}` must be given")
            elif json_files.problem(value, hint):
                text = shown(value).strip("'\"")
                raise UserError(f"`{name}={text}`: expected {json_files.describe(hint)}")
            elif isinstance(value, Config):
                value.validate()
        for field in dataclasses.fields(self):
            name = field.name
            if self.is_given(name) and not self._applies(field, is_unknown=True):
                other, *values = field.metadata["requires"]
                values = "=" + " or ".join(map(str, values)) if values else ""
                raise UserError(f"`{name}` requires `{other}{values}`")
        return self

    def is_given(self, name: str) -> bool:
        """Return whether an option differs from its default."""
        return getattr(self, name) != self.__dataclass_fields__[name].default

    @classmethod
    def find_group(cls, name: str) -> str:
        groups = [x for base in cls.__mro__ for x in vars(base).get("GROUPS", ())]
        return next((title for title, names in groups if name in names.split()), cls.GROUP)

    def _applies(self, field, is_unknown=False):
        """Return whether an option has an effect, or `is_unknown` if that is not yet resolved."""
        if not (requires := field.metadata.get("requires")):
            return True
        name, *values = requires
        value = getattr(self, name)
        if value is None and self.__dataclass_fields__[name].metadata["saved"] and is_unknown:
            return True
        return value in values if values else bool(value)

    @classmethod
    def saved_options(cls) -> list[str]:
        """Return the names of the options that `resolve` sets."""
        fields = ((x.name, x.metadata) for x in dataclasses.fields(cls))
        return [name for name, x in fields if x.get("saved") and x["help"] and not x["inferred"]]

    def resolve(self, stored=None):
        """Return a copy with the saved options set from `stored` or the defaults, unless given."""
        config = copy.copy(self)
        for name in self.saved_options():  # options come after those that they require
            field = self.__dataclass_fields__[name]
            if getattr(config, name) is None and config._applies(field):
                value = getattr(stored, name, None)
                value = field.metadata["default"] if value is None else value
                object.__setattr__(config, name, value)
        return config

    def to_json(self) -> dict[str, Any]:
        return {
            field.name: _to_plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.metadata.get("saved") and self._applies(field)
        }

    def to_flags(self) -> dict[str, Any]:
        """Return the options that have an effect, as a dict from flag to value."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Config):
                values |= value.to_flags()
            elif field.metadata.get("help") and value is not None and self._applies(field):
                values[field.name] = _to_plain(value)
        return values

    @classmethod
    def from_json(cls, values, **others):
        """Return the config for the values of a JSON file; `others` are additional attributes."""
        hints = {}
        for field in dataclasses.fields(cls):
            if field.metadata.get("saved"):
                may_miss = field.metadata["requires"] or field.metadata["inferred"]
                hints[f"{field.name}{'?' if may_miss else ''}"] = _hint(cls, field)
        json_files.check(values, hints)
        names = [name for key in hints if (name := key.removesuffix("?")) in values]
        read = {name: _from_plain(values[name], _hints(cls)[name]) for name in names}
        return cls(**others, **read)

    def fixed_values(self) -> dict[str, Any]:
        """Return the values that a resumed run must not change, as a dict."""
        fields = dataclasses.fields(self)
        return {x.name: getattr(self, x.name) for x in fields if x.metadata.get("fixed")}


def _hint(cls, field):
    return Annotated[_hints(cls)[field.name], field.metadata.get("limits", json_files.Limits())]


def _to_plain(value):
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _to_plain(x) for name, x in value.items()}
    return [_to_plain(x) for x in value] if isinstance(value, (list, tuple)) else value


def _from_plain(value, hint):
    """Convert a valid value of a JSON file to the type of its annotation."""
    if value is None:
        return None
    arguments = [x for x in typing.get_args(hint) if x is not type(None)]
    if isinstance(value, list):
        return tuple(_from_plain(x, arguments[0] if arguments else Any) for x in value)
    for kind in (hint, *arguments):
        if hasattr(kind, "_fields"):
            return kind(**{name: value[name] for name in kind._fields if name in value})
    if isinstance(value, dict):
        return {name: _from_plain(x, Any) for name, x in value.items()}
    return value
