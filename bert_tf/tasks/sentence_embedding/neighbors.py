"""The search for nearest neighbors among vectors.

Shapes: H numbers of a vector, Q queries, N vectors, K neighbors.
"""

from typing import NamedTuple

import numpy as np

from bert_tf.errors import UserError

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
      score: that of the reranker, None without one.
    """

    index: int  # type: ignore[assignment]
    similarity: float
    item: object
    score: float | None = None


class Reranker:
    """Scores pairs of a query and a text by a classifier of pairs, such as a cross-encoder.

    >>> reranker = Reranker(bert_tf.TextClassifier.from_preset("relevance"), label="yes")
    >>> neighbors = NearestNeighbors(queries, count=5, encoder=encoder, reranker=reranker)
    """

    def __init__(self, classifier, label=None, num_candidates=50):
        """Create the reranker.

        Args:
          classifier: a `TextClassifier` of pairs.
          label: the label whose probability is the score; None for the score of a regression, or
            for the label "1" or "yes".
          num_candidates: number of nearest neighbors to score.

        Raises:
          UserError: if the classifier has no such label.
        """
        labels = classifier.config.labels
        if labels and label is None:
            label = next((x for x in ("1", "yes") if x in labels), None)
        if (label is None) != (not labels) or (labels and label not in labels):
            raise UserError(
                f"`label={label}`: expected one of the labels of the reranker, "
                f"{', '.join(labels) or 'which has scores and no labels'}"
            )
        self._classifier, self._label = classifier, label
        self.num_candidates = num_candidates

    def __call__(self, query, neighbors):
        """Return `Neighbor`s, whose items are texts, with scores and the best first."""
        if not neighbors:
            return []
        answers = self._classifier.predict([(query, x.item) for x in neighbors])
        if self._label is None:
            scores = [answer["score"] for answer in answers]
        else:
            scores = [answer["probabilities"][self._label] for answer in answers]
        scored = [x._replace(score=float(y)) for x, y in zip(neighbors, scores, strict=True)]
        return sorted(scored, key=lambda x: -x.score)


class NearestNeighbors:
    """Finds the nearest neighbors of queries in a stream of vectors, by cosine similarity.

    Unlike `sklearn.neighbors.NearestNeighbors`, it does not hold the vectors in memory.

    >>> neighbors = NearestNeighbors(queries, count=5)
    >>> for sentence, vector in encoder.stream(sentences):
    ...     neighbors.add(vector, sentence)
    >>> neighbors.results()  # for each query a list of `Neighbor`, the nearest first

    With an encoder, queries and sentences are texts:

    >>> neighbors = NearestNeighbors(["Did it rain?"], encoder=encoder)
    >>> neighbors.add_texts(sentences).results()
    """

    def __init__(self, queries, count=5, encoder=None, reranker=None):
        """Start a search for the nearest neighbors of each query.

        Args:
          queries: vectors (Q, H), or with an `encoder` texts.
          count: K, the number of neighbors.
          encoder: a `SentenceEncoder`.
          reranker: a `Reranker`, which orders its `num_candidates` nearest neighbors of a text; it
            requires an `encoder`.
        """
        if reranker and encoder is None:
            raise UserError("`reranker` requires `encoder`, because it reads the texts of queries")
        self._encoder, self._reranker = encoder, reranker
        self._texts = queries if encoder is None else list(queries)
        self._queries = l2_normalize(queries if encoder is None else encoder.encode(self._texts))
        self._num_results = count
        self._count = max(count, reranker.num_candidates) if reranker else count
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
        """Add the texts of an iterable, which is read as needed, and return self."""
        if self._encoder is None:
            raise UserError("`add_texts` requires `encoder`; without one, add vectors")
        for text, vector in self._encoder.stream(texts):
            self.add(vector, text)
        return self

    def results(self):
        """Return for each query a list of at most K `Neighbor`s, the nearest or best first."""
        self._compare()
        if not self._reranker:
            return self._best
        ranked = map(self._reranker, self._texts, self._best)
        return [best[: self._num_results] for best in ranked]

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
