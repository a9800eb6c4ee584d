"""The search for nearest neighbors among vectors.

Shapes: H numbers of a vector, Q queries, N vectors, K neighbors.
"""

from typing import NamedTuple

import numpy as np

# Lower bound of the norm that a vector is divided by, so that a zero vector stays zero.
MIN_NORM = 1e-12

# Number of vectors that `NearestNeighbors` compares at once.
_BLOCK_SIZE = 1024


def l2_normalize(vectors):
    """Return vectors (..., H) as float32, scaled to length 1; zero vectors stay zero."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), MIN_NORM)


def nearest_neighbors(queries, vectors, count=5):
    """Find the vectors with the greatest cosine similarity to each query.

    Args:
      queries: normalized vectors (Q, H).
      vectors: normalized vectors (N, H).
      count: K, the number of neighbors.

    Returns:
      For each query a list of at most K pairs (index, cosine), the nearest first; ties are in the
      order of the indices.
    """
    similarities = queries @ vectors.T  # (Q, N)
    order = np.argsort(-similarities, axis=-1, kind="stable")[:, :count]
    return [
        [(int(i), float(row[i])) for i in best]
        for row, best in zip(similarities, order, strict=True)
    ]


class Neighbor(NamedTuple):
    """A neighbor of a query.

    Attributes:
      index: number of the vector, from 0.
      similarity: cosine of the vector and the query.
      item: the object that was added with the vector.
    """

    index: int  # type: ignore[assignment]
    similarity: float
    item: object


class NearestNeighbors:
    """Finds the nearest neighbors of queries in a stream of vectors, by cosine similarity.

    Unlike `sklearn.neighbors.NearestNeighbors`, it does not hold the vectors in memory.

    >>> neighbors = NearestNeighbors(queries, count=5)
    >>> for sentence, vector in encoder.stream(sentences):
    ...     neighbors.add(vector, sentence)
    >>> neighbors.results()  # for each query a list of `Neighbor`, the nearest first
    """

    def __init__(self, queries, count=5):
        """Start a search for the `count` nearest neighbors of each of `queries` (Q, H)."""
        self._queries = l2_normalize(queries)
        self._count = count
        self._best = [[] for _ in self._queries]
        self._pending = []
        self._num_added = 0

    def add(self, vector, item=None):
        """Add a vector (H,) and an object that identifies it."""
        self._pending.append((self._num_added, vector, item))
        self._num_added += 1
        if len(self._pending) >= _BLOCK_SIZE:
            self._compare()

    def results(self):
        """Return for each query a list of at most `count` `Neighbor`s, the nearest first."""
        self._compare()
        return self._best

    def _compare(self):
        if not self._pending:
            return
        numbers, vectors, items = zip(*self._pending, strict=True)
        block = nearest_neighbors(self._queries, l2_normalize(vectors), self._count)
        for row, pairs in enumerate(block):
            new = [Neighbor(numbers[i], similarity, items[i]) for i, similarity in pairs]
            # The sort is stable, so ties stay in the order in which they were added.
            best = sorted(self._best[row] + new, key=lambda x: -x.similarity)
            self._best[row] = best[: self._count]
        self._pending = []
