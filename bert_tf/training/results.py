"""The result files of evaluation and prediction."""

import os

from bert_tf import console
from bert_tf.data.rows import base_split
from bert_tf.io import files


def result_name(stem, split, ending):
    """Return the name of a split's file, such as "eval_results_mismatched.txt"."""
    return f"{stem}{split.removeprefix(base_split(split))}{ending}"


def result_file(folder, stem, split, ending):
    return os.path.join(folder, result_name(stem, split, ending))


def write_eval_results(path, results):
    """Write `eval_results.txt` as the release does."""
    lines = [f"{name} = {results[name]}" for name in sorted(results)]
    console.info("%s:", path)
    for line in lines:
        console.info("  %s", line)
    files.write_text(path, "\n".join(lines) + "\n")


def as_text(predicted, labels, separator=","):
    """Return N texts for label ids (N,), 0 and 1 (N, L), or scores (N,) if `labels` is empty."""
    if not labels:
        return [str(score) for score in predicted]
    if predicted.ndim == 1:
        return [labels[i] for i in predicted]
    return [
        separator.join(label for label, on in zip(labels, row, strict=True) if on)
        for row in predicted
    ]


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
    lines = ("\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row)
             for row in rows)  # fmt: skip
    path = result_file(folder, "test_predictions", split, ".tsv")
    files.write_text(path, "\n".join(lines) + "\n")
    console.info("wrote %s and %s", path, os.path.basename(results_path))
