"""Names that are imported on first use, so that `--help` does not wait for TensorFlow."""

import importlib

_providers: dict[str, str] = {}


def provide(name, module):
    """Let `provided(name)` return the object of this name in a module of bert_tf."""
    _providers[name] = module


def provided(name):
    """Return an object that a higher layer provides, see `provide`.

    It lets a class have a method that is implemented by a package which imports that of the class.
    """
    return getattr(importlib.import_module(_providers[name]), name)


def lazy_names(package, names):
    """Return `__getattr__` and `__all__` of a package.

    Args:
      package: its `__name__`.
      names: dict from each module, relative to the package or "bert_tf.x.y", to the tuple of names
        that it provides; a module without names is itself a name of the package.

    >>> __getattr__, __all__ = lazy_names(__name__, {"trainer": ("Trainer",), "metrics": ()})
    """
    module_of = {name: module for module, provided in names.items() for name in provided}

    def resolve(name):
        if name in module_of:
            module = module_of[name]
            module = module if module.startswith("bert_tf.") else f"{package}.{module}"
            return getattr(importlib.import_module(module), name)
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    modules = (name for name, provided in names.items() if not provided)
    return resolve, sorted([*module_of, *modules])


def load(reference):
    """Import the object that "module:name" names; return anything but a text as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


class OnUse:
    """A field of a dataclass whose value may be "module:name", imported when it is read."""

    def __set_name__(self, owner, name):
        self._name = f"_{name}"

    def __get__(self, instance, owner=None):
        return None if instance is None else load(getattr(instance, self._name))

    def __set__(self, instance, value):
        object.__setattr__(instance, self._name, value)  # the dataclass may be frozen
