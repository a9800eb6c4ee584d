"""Evaluation of sentence vectors: correlation with similarity scores, and search metrics."""

import numpy as np

from bert_tf.errors import UserError


def correlations(first, second, scores):
    """Return the correlations of scores (N,) and the cosines of pairs of normalized vectors."""
    from scipy import stats

    cosines = (first * second).sum(-1)
    return {
        "spearman": float(stats.spearmanr(cosines, scores).statistic),
        "pearson": float(stats.pearsonr(cosines, scores).statistic),
    }


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
            raise UserError(
                f"`relevant`: item {i} is {sorted(numbers)}, expected indices of documents, from 0 "
                f"to {len(documents) - 1}"
            )
        best = np.argsort(-(documents @ query), kind="stable")[:k]
        hits = np.array([x in numbers for x in best])
        recall.append(hits.sum() / len(numbers))
        mrr.append(1 / (1 + hits.argmax()) if hits.any() else 0.0)
        ndcg.append(discounts[: len(hits)][hits].sum() / discounts[: len(numbers)].sum())
    names = ("recall", "mrr", "ndcg")
    values = zip(names, (recall, mrr, ndcg), strict=True)
    return {f"{name}@{k}": float(np.mean(x)) for name, x in values}
