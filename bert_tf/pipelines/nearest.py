"""The nearest neighbours of a few vectors among many, by cosine.

Letters of shapes: Q queries, N vectors, H their width, K neighbours.
"""

from typing import NamedTuple

import numpy as np

# Vectors that are compared at once.
_BLOCK = 1024


class Neighbour(NamedTuple):
    """A vector's number, its cosine with the query, and what it was added with."""

    index: int  # type: ignore[assignment]
    similarity: float
    item: object


def unit(vectors):
    """Vectors (..., H) as float32 of the length 1; those of zeros stay as they are."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def nearest_of(queries, vectors, count=5):
    """Pairs of number and cosine of the nearest vectors, the nearest first.

    Args:
      queries: (Q, H), as `unit` makes them.
      vectors: (N, H), as `unit` makes them.
      count: K, the most of them.

    Returns:
      For each query a list; of equals the earlier one stands in front.
    """
    similarities = queries @ vectors.T  # (Q, N)
    order = np.argsort(-similarities, axis=-1, kind="stable")[:, :count]
    return [
        [(int(i), float(row[i])) for i in best]
        for row, best in zip(similarities, order, strict=True)
    ]


class Nearest:
    """Keeps the K nearest of each query among vectors that come one after the other.

    >>> nearest = Nearest(queries, count=5)
    >>> for vector, sentence in corpus:
    ...     nearest.add(vector, sentence)
    >>> nearest.found()  # for each query a list of `Neighbour`, the nearest first
    """

    def __init__(self, queries, count=5):
        """Takes vectors (Q, H), and how many neighbours of each to keep."""
        self._queries = unit(queries)
        self._count = count
        self._best = [[] for _ in self._queries]
        self._waiting = []
        self._next = 0

    def add(self, vector, item=None):
        """Looks at one more vector (H,)."""
        self._waiting.append((self._next, vector, item))
        self._next += 1
        if len(self._waiting) >= _BLOCK:
            self._compare()

    def found(self):
        """For each query a list of at most K `Neighbour`s, the nearest first."""
        self._compare()
        return self._best

    def _compare(self):
        if not self._waiting:
            return
        vectors = unit([vector for _, vector, _ in self._waiting])
        all_found = nearest_of(self._queries, vectors, self._count)
        for row, (best, found) in enumerate(zip(self._best, all_found, strict=True)):
            more = [Neighbour(self._waiting[i][0], x, self._waiting[i][2]) for i, x in found]
            # Sorting is stable: of equals the earlier one stays in front.
            best = sorted(best + more, key=lambda neighbour: -neighbour.similarity)
            self._best[row] = best[: self._count]
        self._waiting = []
