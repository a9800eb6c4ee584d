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
      names: dict from each module of the package to the tuple of names that it provides; a module
        without names is itself a name of the package.

    >>> __getattr__, __all__ = lazy_names(__name__, {"trainer": ("Trainer",), "metrics": ()})
    """
    module_of = {name: module for module, provided in names.items() for name in provided}

    def resolve(name):
        if name in module_of:
            return getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    modules = (name for name, provided in names.items() if not provided)
    return resolve, sorted([*module_of, *modules])
