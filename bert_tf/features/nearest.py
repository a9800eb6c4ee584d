"""The nearest neighbours of a few vectors among many that come one after the other.

Letters of shapes: Q queries, N vectors, H their width, K neighbours.
"""

from typing import NamedTuple

import numpy as np

# Vectors that are compared at once.
_BLOCK = 1024


class Neighbour(NamedTuple):
    """A vector's number, its cosine with the query, and what it was added with."""

    index: int
    similarity: float
    item: object


class Nearest:
    """Keeps the K nearest of each query by cosine, whatever the number of vectors.

    >>> nearest = Nearest(queries, count=5)
    >>> for vector, sentence in corpus:
    ...     nearest.add(vector, sentence)
    >>> nearest.found()  # for each query a list of `Neighbour`, the nearest first
    """

    def __init__(self, queries, count=5):
        """Takes vectors (Q, H), and how many neighbours of each to keep."""
        self._queries = _unit(np.asarray(queries, "float32"))
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
        vectors = _unit(np.stack([vector for _, vector, _ in self._waiting]).astype("float32"))
        similarities = self._queries @ vectors.T  # (Q, N)
        for row, (best, found) in enumerate(zip(self._best, similarities, strict=True)):
            order = np.argsort(-found, kind="stable")[: self._count]
            more = [
                Neighbour(self._waiting[i][0], float(found[i]), self._waiting[i][2]) for i in order
            ]
            # Sorting is stable: of equals the earlier one stays in front.
            best = sorted(best + more, key=lambda neighbour: -neighbour.similarity)
            self._best[row] = best[: self._count]
        self._waiting = []


def _unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
