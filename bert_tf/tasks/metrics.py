"""Figures over a whole set, by scikit-learn and SciPy, which are imported when one is asked for."""

import numpy as np

from bert_tf import console


def _accuracy(true, found):
    """The share of examples that are right; of several labels, in all of them."""
    right = true == found
    return right.mean() if right.ndim == 1 else right.all(-1).mean()


def _matthews(true, found):
    from sklearn.metrics import matthews_corrcoef

    return matthews_corrcoef(true, found)


def _f1(average):
    """The F1 of label 1 of two ("binary"), or over labels ("micro", "macro"); 0 where undefined."""

    def f1(true, found):
        from sklearn.metrics import f1_score

        return f1_score(true, found, average=average, zero_division=0)

    return f1


def _correlation(name):
    def correlation(true, found):
        from scipy import stats

        true, found = np.asarray(true, "float64"), np.asarray(found, "float64")
        if len(true) < 2 or np.ptp(true) == 0 or np.ptp(found) == 0:
            # SciPy would say so in a warning of its own.
            console.warning("no %s correlation: all labels or all scores are the same", name)
            return float("nan")
        return getattr(stats, f"{name}r")(true, found).statistic

    return correlation


# By the name in `eval_results.txt` without its `eval_`: functions of two arrays (N,), label ids or
# scores, or (N, L) of 0 and 1 where there are several labels: those of the data, and those found.
METRICS = {
    "accuracy": _accuracy,
    "matthews": _matthews,
    "f1": _f1("binary"),
    "f1_micro": _f1("micro"),
    "f1_macro": _f1("macro"),
    "pearson": _correlation("pearson"),
    "spearman": _correlation("spearman"),
}


def report(true, found, labels):
    """A table of precision, recall and F1 of each label and the confusion matrix, as text.

    Args:
      true: label ids (N,), or 0 and 1 (N, L) where there are several labels, or scores (N,).
      found: the same of the predictions.
      labels: names of the L labels in the order of their ids; none for scores.
    """
    if not labels:
        errors = np.asarray(found, "float64") - np.asarray(true, "float64")
        rows = [
            ["examples", str(len(errors))],
            ["mean absolute error", f"{np.abs(errors).mean():.4f}"],
            ["root mean squared error", f"{np.sqrt((errors**2).mean()):.4f}"],
            ["mean error", f"{errors.mean():.4f}"],
            ["greatest error", f"{np.abs(errors).max():.4f}"],
        ]
        return _table(rows) + "\n"
    from sklearn.metrics import classification_report, confusion_matrix, multilabel_confusion_matrix

    ids = list(range(len(labels)))
    table = classification_report(
        true, found, labels=ids, target_names=list(labels), digits=4, zero_division=0
    )
    if np.ndim(true) == 1:
        counts = confusion_matrix(true, found, labels=ids)
        title = "confusion matrix: rows are the labels of the data, columns the predictions"
        rows = [["", *labels], *([label, *row] for label, row in zip(labels, counts, strict=True))]
    else:
        counts = multilabel_confusion_matrix(true, found).reshape(-1, 4)
        title = "each label: how often it is rightly and wrongly left out and given"
        head = ["", "not there", "given wrongly", "missed", "given rightly"]
        rows = [head, *([label, *row] for label, row in zip(labels, counts, strict=True))]
    return f"{table}\n{title}\n\n{_table(rows)}\n"


def _table(rows):
    """Rows of cells in columns, the first to the left and the others to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = (
        row[0].ljust(first) + "".join(f"  {c:>{w}}" for c, w in zip(row[1:], others, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
