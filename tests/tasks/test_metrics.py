"""Metrics and reports equal values computed by hand; files of predictions."""

import numpy as np
import pytest

from bert_tf.training import results

# Label ids, label sets or scores with their predictions, and metrics computed by hand.
CASES = [
    (
        np.array([1, 1, 1, 0, 0, 1]),  # tp 3, tn 1, fp 1, fn 1
        np.array([1, 1, 0, 0, 1, 1]),
        {"accuracy": 4 / 6, "f1": 6 / 8, "matthews": (3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2)},
    ),
    (
        np.array([0, 0, 0, 1, 1, 2]),  # precision 2/3, 2/3, 0; recall 2/3, 1, 0; F1 2/3, 4/5, 0
        np.array([0, 0, 1, 1, 1, 0]),
        {"precision_macro": 4 / 9, "recall_macro": 5 / 9, "f1_macro": (2 / 3 + 4 / 5) / 3,
         "f1_weighted": (3 * 2 / 3 + 2 * 4 / 5) / 6},
    ),
    (
        np.float32([[1, 1, 0], [1, 0, 0], [0, 1, 0]]),  # tp 3, fp 1, fn 1; label 2 has an F1 of 0
        np.float32([[1, 1, 0], [1, 0, 0], [1, 0, 0]]),
        {"accuracy": 2 / 3, "f1_micro": 6 / 8, "f1_macro": (4 / 5 + 2 / 3) / 3,
         "precision_micro": 3 / 4, "recall_micro": 3 / 4},
    ),
    (
        np.float32([0, 1, 2, 5]),
        np.float32([1, 2, 3, 9]),
        {"pearson": np.corrcoef([0, 1, 2, 5], [1, 2, 3, 9])[0, 1], "spearman": 1.0},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "predicted", "expected"), CASES)
def test_metrics(labels, predicted, expected):
    found = {name: results.METRICS[name](labels, predicted) for name in expected}
    assert found == pytest.approx(expected)


def test_an_undefined_correlation(caplog):
    assert np.isnan(results.METRICS["pearson"](np.float32([1, 2]), np.float32([3, 3])))
    assert "no pearson correlation" in caplog.text


def rows_of(text):
    return [line.split() for line in text.splitlines()]


def test_reports():
    names = ("no", "yes", "maybe")
    rows = rows_of(results.report(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), names))
    assert ["yes", "1.0000", "0.5000", "0.6667", "2"] in rows
    assert rows[-3:] == [["no", "1", "0", "0"], ["yes", "0", "1", "1"], ["maybe", "0", "0", "1"]]
    # A label without examples is listed too.
    assert "maybe" in results.report(np.array([0, 1]), np.array([0, 1]), names)
    labels, predicted = np.float32([[1, 0], [1, 1]]), np.float32([[1, 0], [0, 1]])
    rows = rows_of(results.report(labels, predicted, ("hot", "salty")))
    assert rows[-2:] == [["hot", "0", "0", "1", "1"], ["salty", "1", "0", "0", "1"]]
    rows = rows_of(results.report(np.float32([1, 2]), np.float32([2, 5]), ()))
    assert ["mean", "absolute", "error", "2.0000"] in rows


def test_predictions_as_text():
    assert results.label_texts(np.array([1, 0]), ("x", "y")) == ["y", "x"]
    assert results.label_texts(np.float32([[1, 1], [0, 0]]), ("x", "y"), "; ") == ["x; y", ""]
    assert results.label_texts(np.float32([0.5, 4]), ()) == ["0.5", "4.0"]


def test_files_of_predictions(tmp_path):
    def write(split, predicted, labels, answers):
        answers = np.float32(answers)
        results.write_predictions(str(tmp_path), split, ["7", "8"], predicted, labels, answers)

    write("test", ["y", "a\tb\nc"], ("x", "y"), [[0.25, 0.75], [1, 0]])
    assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n1.0\t0.0\n"
    predictions = (tmp_path / "test_predictions.tsv").read_text()
    assert predictions == "id\tprediction\tx\ty\n7\ty\t0.25\t0.75\n8\ta b c\t1.0\t0.0\n"
    write("test_ax", ["0.5", "4.0"], (), [0.5, 4])
    assert (tmp_path / "test_results_ax.tsv").read_text() == "0.5\n4.0\n"
    predictions = (tmp_path / "test_predictions_ax.tsv").read_text()
    assert predictions == "id\tprediction\n7\t0.5\n8\t4.0\n"
