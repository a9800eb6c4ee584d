"""The metrics of a split, and the result files of evaluation and prediction.

Metrics come from scikit-learn and SciPy, which are imported on demand.
"""

import functools
import itertools
import os

import numpy as np

from bert_tf import console
from bert_tf.configs.task import base_split
from bert_tf.io import files


def _accuracy(labels, predicted):
    """With several labels per example, all must be correct."""
    correct = labels == predicted
    return correct.mean() if correct.ndim == 1 else correct.all(-1).mean()


def _score(name, labels, predicted, **options):
    from sklearn import metrics

    return getattr(metrics, name)(labels, predicted, **options)


def _correlation(name, labels, predicted):
    from scipy import stats

    labels, predicted = np.asarray(labels, "float64"), np.asarray(predicted, "float64")
    if len(labels) < 2 or np.ptp(labels) == 0 or np.ptp(predicted) == 0:
        # SciPy's warning does not name the metric.
        console.warning("no %s correlation, because all labels or all scores are the same", name)
        return float("nan")
    return getattr(stats, f"{name}r")(labels, predicted).statistic


# Keys are the names in `eval_results.txt` without `eval_`. Values are functions of true labels and
# predictions: two arrays (N,) of label ids or scores, or (N, L) of 0 and 1 for several labels.
METRICS = {
    "accuracy": _accuracy,
    "matthews": functools.partial(_score, "matthews_corrcoef"),
    "f1": functools.partial(_score, "f1_score", zero_division=0),
    **{
        f"{name}_{average}": functools.partial(
            _score, f"{name}_score", average=average, zero_division=0
        )
        for name in ("f1", "precision", "recall")
        for average in ("micro", "macro", "weighted")
    },
    "mean_absolute_error": lambda labels, scores: float(
        np.abs(np.subtract(scores, labels, dtype="float64")).mean()
    ),
    "pearson": functools.partial(_correlation, "pearson"),
    "spearman": functools.partial(_correlation, "spearman"),
}


def report(labels, predicted, names):
    """Return precision, recall and F1 of each label and the confusion matrix as a text table.

    Args:
      labels: label ids (N,), or 0 and 1 (N, L) for several labels, or scores (N,).
      predicted: the predictions, in the same form.
      names: names of the L labels; empty for scores.
    """
    if not names:
        errors = np.asarray(predicted, "float64") - np.asarray(labels, "float64")
        rows = [
            ["examples", str(len(errors))],
            ["mean absolute error", f"{np.abs(errors).mean():.4f}"],
            ["root mean squared error", f"{np.sqrt((errors**2).mean()):.4f}"],
            ["mean error", f"{errors.mean():.4f}"],
            ["largest error", f"{np.abs(errors).max():.4f}"],
        ]
        return _table(rows) + "\n"
    from sklearn.metrics import classification_report, confusion_matrix, multilabel_confusion_matrix

    ids = list(range(len(names)))
    table = classification_report(
        labels, predicted, labels=ids, target_names=list(names), digits=4, zero_division=0
    )
    if np.ndim(labels) == 1:
        counts = confusion_matrix(labels, predicted, labels=ids)
        title = "confusion matrix: rows are the labels of the data, columns the predictions"
        head = ["", *names]
    else:
        counts = multilabel_confusion_matrix(labels, predicted).reshape(-1, 4)
        title = "counts of each label"
        head = ["", "true negatives", "false positives", "false negatives", "true positives"]
    rows = [head, *([name, *row] for name, row in zip(names, counts, strict=True))]
    return f"{table}\n{title}\n\n{_table(rows)}\n"


def _table(rows):
    rows = [[str(cell) for cell in row] for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = (
        row[0].ljust(first) + "".join(f"  {c:>{w}}" for c, w in zip(row[1:], others, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def result_file(folder, stem, split, ending):
    """Return the path of a split's file, such as "eval_results_mismatched.txt"."""
    return os.path.join(folder, f"{stem}{split.removeprefix(base_split(split))}{ending}")


def write_eval_results(path, results):
    """Write `eval_results.txt` as the release does."""
    lines = [f"{name} = {results[name]}" for name in sorted(results)]
    console.info("%s:", path)
    for line in lines:
        console.info("  %s", line)
    files.write_text(path, "\n".join(lines) + "\n")


def label_texts(predicted, labels, separator=","):
    """Return N texts for label ids (N,), 0 and 1 (N, L), or scores (N,) if `labels` is empty."""
    if not labels:
        return [str(score) for score in predicted]
    if predicted.ndim == 1:
        return [labels[i] for i in predicted]
    return [separator.join(itertools.compress(labels, row)) for row in predicted]


def write_predictions(folder, split, ids, predicted, labels, answers):
    """Write `test_results.tsv` as the release does, and `test_predictions.tsv`.

    The first has only numbers and no header. `predicted` are texts, and `answers` probabilities
    (N, L) or, without labels, scores (N,).
    """
    lines = ("\t".join(map(str, row)) + "\n" for row in answers.reshape(len(answers), -1))
    results_path = result_file(folder, "test_results", split, ".tsv")
    files.write_text(results_path, "".join(lines))
    rows = [["id", "prediction", *labels]]
    for name, text, answer in zip(ids, predicted, answers, strict=True):
        rows.append([name, text, *(map(str, answer) if labels else ())])
    # A label from a CSV file may contain tabs and line breaks.
    rows = ([" ".join(cell.splitlines()).replace("\t", " ") for cell in row] for row in rows)
    path = result_file(folder, "test_predictions", split, ".tsv")
    files.write_text(path, "".join("\t".join(row) + "\n" for row in rows))
    console.info("wrote %s and %s", path, os.path.basename(results_path))
