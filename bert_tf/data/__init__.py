"""Training data: the records, how pre-training examples are made, how they are read."""

import importlib

_MODULES = ("masking", "input_pipeline", "pretraining", "records", "tfds", "tfrecord")

__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
