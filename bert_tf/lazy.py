"""Imports on first use, so that `--help` does not wait for TensorFlow."""

import importlib

_providers: dict[str, str] = {}


def provide(name, module):
    """Let `provided(name)` return the object `name` of `module`."""
    _providers[name] = module


def provided(name):
    """Return an object that was registered with `provide`, to avoid circular imports."""
    return getattr(importlib.import_module(_providers[name]), name)


def lazy_names(package, names):
    """Return `__getattr__` and `__all__` for a package that imports its names on first use.

    `names` is a dict from module, relative to the package or absolute, to a tuple of its names. An
    empty tuple exposes the module itself.
    """
    module_by_name = {name: module for module, provided in names.items() for name in provided}

    def resolve(name):
        if name in module_by_name:
            module = module_by_name[name]
            module = module if module.startswith("bert_tf.") else f"{package}.{module}"
            return getattr(importlib.import_module(module), name)
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    modules = (name for name, provided in names.items() if not provided)
    return resolve, sorted([*module_by_name, *modules])


def load(reference):
    """Import the object named by "module:name"; return other types of `reference` unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


class LazyImport:
    """Dataclass field whose value may be "module:name", which is imported on access."""

    def __set_name__(self, owner, name):
        self._name = f"_{name}"

    def __get__(self, instance, owner=None):
        return None if instance is None else load(getattr(instance, self._name))

    def __set__(self, instance, value):
        object.__setattr__(instance, self._name, value)  # the dataclass may be frozen
