"""Atomic files, locks, validated JSON and worker processes."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__, {"files": (), "json_files": (), "locks": (), "processes": ()}
)
