"""How good sentence vectors are: correlation with scores, and search.

Shapes: N pairs, Q queries, D documents, H hidden.
"""

import numpy as np

from bert_tf.errors import UserError


def correlations(first, second, scores):
    """Return Spearman's and Pearson's correlation of the cosines of pairs with scores.

    Args:
      first: vectors of the first text of each pair (N, H), of length 1.
      second: those of the second text.
      scores: numbers (N,).
    """
    from scipy import stats

    cosines = (first * second).sum(-1)
    return {
        "spearman": float(stats.spearmanr(cosines, scores).statistic),
        "pearson": float(stats.pearsonr(cosines, scores).statistic),
    }


def search_scores(queries, documents, relevant, k=10):
    """Return recall, MRR and nDCG of a search by cosine, each of the best `k` documents.

    Args:
      queries: vectors (Q, H), of length 1.
      documents: vectors (D, H), of length 1.
      relevant: for each query the numbers of its relevant documents, a collection of int.
      k: number of documents that count.

    Returns:
      Dict with "recall", the share of the relevant documents that are found; "mrr", the mean of 1 /
      the rank of the first one, 0 if none is found; and "ndcg", with relevance 0 or 1.

    Raises:
      UserError: if a query has no relevant document, or one that does not exist.
    """
    discounts = 1 / np.log2(np.arange(2, k + 2))
    recall, mrr, ndcg = [], [], []
    for i, (query, numbers) in enumerate(zip(queries, relevant, strict=True)):
        numbers = {int(x) for x in numbers}
        if not numbers or not 0 <= min(numbers) <= max(numbers) < len(documents):
            raise UserError(
                f"`relevant`: item {i} is {sorted(numbers)}, expected numbers of documents, from 0 "
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
