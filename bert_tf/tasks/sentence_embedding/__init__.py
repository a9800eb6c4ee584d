"""Vectors of sentences, for similarity and search."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {"pipeline": ("NearestNeighbors", "SentenceEncoder", "l2_normalize", "nearest_neighbors")},
)
