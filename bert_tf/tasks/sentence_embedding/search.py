"""Search by cosine similarity: nearest neighbors and metrics."""

from typing import Any, NamedTuple

import numpy as np

from bert_tf.configs.base import check_value
from bert_tf.errors import UserError
from bert_tf.io.json_files import Positive

# Lower bound of the norm in a division, so that zero vectors stay zero.
MIN_NORM = 1e-12

# Number of vectors that `NearestNeighbors` compares at a time.
_BLOCK_SIZE = 1024


def l2_normalize(vectors: Any) -> np.ndarray:
    """Scale vectors (..., H) to length 1, as float32; zero vectors stay zero.

    A column of a table with N vectors becomes an array (N, H).
    """
    if (vectors := np.asarray(vectors)).dtype == "object":
        vectors = vectors.squeeze().tolist()
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), MIN_NORM)


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cosine of each vector in `a` (A, H) with each in `b` (B, H), all normalized."""
    return np.clip(a @ b.T, -1, 1)  # rounding gives 1.0000001


def nearest_neighbors(
    queries: np.ndarray, vectors: np.ndarray, count: int = 5
) -> list[list[tuple[int, float]]]:
    """Find the vectors (N, H) with the greatest cosine similarity to each query (Q, H).

    All vectors must be normalized. Returns a list per query of at most `count` pairs (index,
    cosine), nearest first; ties by index.

    >>> from bert_tf.tasks.sentence_embedding.search import nearest_neighbors
    >>> nearest_neighbors(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), count=1)
    [[(1, 1.0)]]
    """
    similarities = cosines(queries, vectors)  # (Q, N)
    order = np.argsort(-similarities, axis=-1, kind="stable")[:, :count]
    return [
        [(int(i), float(row[i])) for i in best]
        for row, best in zip(similarities, order, strict=True)
    ]


class Neighbor(NamedTuple):
    """A neighbor of a query.

    Attributes:
      index: index of the vector, in the order of addition.
      similarity: cosine of the vector and the query.
      item: the object that was added with the vector.
    """

    index: int  # type: ignore[assignment]
    similarity: float
    item: object


class NearestNeighbors:
    """Finds the nearest neighbors of queries in a stream of vectors, by cosine similarity.

    Unlike `sklearn.neighbors.NearestNeighbors`, it does not keep the vectors in memory.

    >>> from bert_tf.tasks.sentence_embedding.search import NearestNeighbors
    >>> neighbors = NearestNeighbors([[0.0, 1.0]], count=1)
    >>> for vector, item in [([1.0, 0.0], "east"), ([0.0, 2.0], "north")]:
    ...     neighbors.add(vector, item)
    >>> neighbors.results()
    [[Neighbor(index=1, similarity=1.0, item='north')]]

    With an encoder, queries and sentences are strings:

    >>> encoder = bert_tf.SentenceEncoder.from_preset("uncased_L-12_H-768_A-12")
    >>> neighbors = NearestNeighbors(["Did it rain?"], encoder=encoder)
    >>> neighbors.add_texts(["It was wet.", "It was late."]).results()
    [[Neighbor(index=..., similarity=..., item=...), ...]]

    `TextClassifier.rank` ranks the texts found by a model of pairs.
    """

    def __init__(self, queries, count=5, encoder=None):
        """Start a search for the nearest neighbors of each query.

        Args:
          queries: a vector (H,) or vectors (Q, H), or strings if there is an `encoder`.
          count: K, the number of neighbors.
          encoder: a `SentenceEncoder`.
        """
        check_value("count", count, Positive)
        self._encoder, self._count = encoder, count
        vectors = queries if encoder is None else encoder.encode(queries)
        self._queries = np.atleast_2d(l2_normalize(vectors))
        self._best = [[] for _ in self._queries]
        self._pending = []
        self._num_added = 0

    def add(self, vector, item=None):
        """Add a vector (H,) and an object that identifies it."""
        self._pending.append((self._num_added, vector, item))
        self._num_added += 1
        if len(self._pending) >= _BLOCK_SIZE:
            self._compare()

    def add_texts(self, texts):
        """Add the texts of an iterable, read lazily; return self."""
        for text, vector in self._encoder.stream(texts):
            self.add(vector, text)
        return self

    def results(self):
        """Return a list per query of at most K `Neighbor`s, nearest first."""
        self._compare()
        return self._best

    def _compare(self):
        if not self._pending:
            return
        numbers, vectors, items = zip(*self._pending, strict=True)
        block = nearest_neighbors(self._queries, l2_normalize(vectors), self._count)
        for row, pairs in enumerate(block):
            new = [Neighbor(numbers[i], similarity, items[i]) for i, similarity in pairs]
            # The sort is stable, so ties keep the order of addition.
            best = sorted(self._best[row] + new, key=lambda x: -x.similarity)
            self._best[row] = best[: self._count]
        self._pending = []


def search_scores(queries, documents, relevant, k=10):
    """Return recall@k, MRR@k and nDCG@k of a search by cosine; relevance is 0 or 1.

    The vectors `queries` (Q, H) and `documents` (D, H) must be normalized. `relevant` has the
    indices of each query's relevant documents. MRR@k is the mean of 1 / rank of the first relevant
    document, or 0 if there is none among the first k.

    Raises:
      UserError: if a query has no relevant documents, or an index is out of range.
    """
    discounts = 1 / np.log2(np.arange(2, k + 2))
    recall, mrr, ndcg = [], [], []
    for i, (query, numbers) in enumerate(zip(queries, relevant, strict=True)):
        numbers = {int(x) for x in numbers}
        if not numbers or not 0 <= min(numbers) <= max(numbers) < len(documents):
            expected = f"expected indices of documents, from 0 to {len(documents) - 1}"
            raise UserError(f"`relevant`: item {i} is {sorted(numbers)}, {expected}")
        best = np.argsort(-(documents @ query), kind="stable")[:k]
        hits = np.array([x in numbers for x in best])
        recall.append(hits.sum() / len(numbers))
        mrr.append(1 / (1 + hits.argmax()) if hits.any() else 0.0)
        ndcg.append(discounts[: len(hits)][hits].sum() / discounts[: len(numbers)].sum())
    values = {"recall": recall, "mrr": mrr, "ndcg": ndcg}
    return {f"{name}@{k}": float(np.mean(x)) for name, x in values.items()}
