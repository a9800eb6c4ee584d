"""Training data: records, the creation of pre-training examples, and input pipelines."""

import importlib

from bert_tf.deprecation import deprecated_names

_MODULES = (
    "dynamic_masking",
    "input_pipeline",
    "pretraining",
    "record_checks",
    "records",
    "tables",
    "tfds_builder",
    "tfrecord",
)
_deprecated = deprecated_names(
    __name__,
    {"masking": "dynamic_masking", "pipelines": "input_pipeline", "tfds": "tfds_builder"},
)

__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    return _deprecated(name)
