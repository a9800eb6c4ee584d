"""The command line: the only package that reads absl flags.

`flags` has the shared flag groups and starts a script, the other modules turn flags into typed
configurations or are commands of `bert-tf`. Modules are imported on first use: each command
defines its own flags.
"""

import importlib
import importlib.util


def __getattr__(name):
    if importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
