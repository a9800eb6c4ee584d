"""The command line, the only package that uses absl flags.

Modules are imported on first use, because importing a command defines its flags.
"""

import importlib
import importlib.util


def __getattr__(name):
    if importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
