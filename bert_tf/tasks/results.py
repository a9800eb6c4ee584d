"""The files that evaluation and prediction end in."""

import io
import os
import zipfile

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.glue import TASKS


def write_eval_results(path, results):
    """Writes `eval_results.txt` as the release does: `name = value`, sorted by name."""
    lines = [f"{name} = {results[name]}" for name in sorted(results)]
    console.info("%s:", path)
    for line in lines:
        console.info("  %s", line)
    files.write_text(path, "\n".join(lines) + "\n")


def write_test_results(path, values):
    """Writes `test_results.tsv` as the release does: one line an example, without a header.

    Args:
      path: the file.
      values: array (N, labels) of probabilities, or (N,) of scores.
    """
    lines = ("\t".join(map(str, row)) + "\n" for row in values.reshape(len(values), -1))
    files.write_text(path, "".join(lines))


def decided(found, labels, separator=","):
    """What is predicted, as text.

    Args:
      found: what a task of `kinds.TASK_CLASSES` decides for N examples: label ids (N,), 0 and 1
        (N, L), or
        scores (N,).
      labels: the L labels in the order of their ids; none for scores.
      separator: what to write between the labels of one example.

    Returns:
      List of N texts.
    """
    if not labels:
        return [str(score) for score in found]
    if found.ndim == 1:
        return [labels[i] for i in found]
    return [
        separator.join(label for label, on in zip(labels, row, strict=True) if on) for row in found
    ]


def write_predictions(path, ids, predicted, labels, answers):
    """Writes `test_predictions.tsv`: id, prediction and the probability of each label, by header.

    Args:
      path: the file.
      ids: of the N examples.
      predicted: their N predictions, as text.
      labels: in the order of their ids; none for scores, which are the predictions themselves.
      answers: array (N, labels) of probabilities.
    """
    rows = [["id", "prediction", *labels]]
    for i, (name, text) in enumerate(zip(ids, predicted, strict=True)):
        rows.append([name, text, *(map(str, answers[i]) if labels else ())])
    # A label out of a CSV may have what ends a field here.
    lines = ("\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row)
             for row in rows)  # fmt: skip
    files.write_text(path, "\n".join(lines) + "\n")


def write_submission(folder, task, split, ids, predicted):
    """Writes one task's file for GLUE's leaderboard, and a zip of all that lie in the folder.

    Args:
      folder: where; `submission.zip` there has the files of this and of earlier tasks.
      task: a `glue.TextTask` with a `submission`.
      split: which of its test sets.
      ids: of the examples, whole numbers; rows are written in their order.
      predicted: for each a label, or a score.

    Raises:
      UserError: if the ids are not numbers from 0 on: the leaderboard wants every row of its set.
    """
    name = task.submission[split]
    rows = sorted((int(x) if x.isdecimal() else -1, y) for x, y in zip(ids, predicted, strict=True))
    if [number for number, _ in rows] != list(range(len(rows))):
        raise UserError(
            f"`glue_submission`: {name}.tsv wants a prediction for each row of the leaderboard's "
            f"test set, numbered from 0 on, and the ids of these {len(rows)} are others"
        )
    if task.score_range:
        least, most = task.score_range
        rows = [(number, f"{min(max(float(y), least), most):.3f}") for number, y in rows]
    lines = ["index\tprediction", *(f"{number}\t{y}" for number, y in rows)]
    files.write_text(os.path.join(folder, f"{name}.tsv"), "\n".join(lines) + "\n")
    _zip(folder)


def _zip(folder):
    wanted = list(dict.fromkeys(x for task in TASKS.values() for x in task.submission.values()))
    there = [x for x in wanted if tf.io.gfile.exists(os.path.join(folder, f"{x}.tsv"))]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in there:
            # The same predictions make the same zip: no date in it.
            info = zipfile.ZipInfo(f"{name}.tsv")
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files.read_text(os.path.join(folder, f"{name}.tsv")))
    path = os.path.join(folder, "submission.zip")
    with files.replacing(path) as (temporary,), tf.io.gfile.GFile(temporary, "wb") as writer:
        writer.write(data.getvalue())
    missing = [name for name in wanted if name not in there]
    console.info(
        "%s has %s%s", path, ", ".join(there), f"; not yet {', '.join(missing)}" if missing else ""
    )
