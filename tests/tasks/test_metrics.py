"""Metrics and reports equal values computed by hand."""

import numpy as np
import pytest

from bert_tf.training import metrics


def test_two_labels():
    labels, predicted = np.array([1, 1, 1, 0, 0, 1]), np.array([1, 1, 0, 0, 1, 1])
    tp, tn, fp, fn = 3, 1, 1, 1
    assert metrics.METRICS["accuracy"](labels, predicted) == pytest.approx(4 / 6)
    assert metrics.METRICS["f1"](labels, predicted) == pytest.approx(2 * tp / (2 * tp + fp + fn))
    expected = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert metrics.METRICS["matthews"](labels, predicted) == pytest.approx(expected)


def test_scores():
    labels, predicted = np.float32([0, 1, 2, 5]), np.float32([1, 2, 3, 9])
    expected = np.corrcoef(labels.astype(float), predicted)[0, 1]
    assert metrics.METRICS["pearson"](labels, predicted) == pytest.approx(expected)
    assert metrics.METRICS["spearman"](labels, predicted) == pytest.approx(1.0)


def test_several_labels():
    # Label 0: tp 2, fn 0, fp 1. Label 1: tp 1, fn 1, fp 0. Label 2 nowhere: its F1 counts as 0.
    labels = np.float32([[1, 1, 0], [1, 0, 0], [0, 1, 0]])
    predicted = np.float32([[1, 1, 0], [1, 0, 0], [1, 0, 0]])
    assert metrics.METRICS["accuracy"](labels, predicted) == pytest.approx(2 / 3)
    assert metrics.METRICS["f1_micro"](labels, predicted) == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert metrics.METRICS["f1_macro"](labels, predicted) == pytest.approx((4 / 5 + 2 / 3 + 0) / 3)
    assert metrics.METRICS["precision_micro"](labels, predicted) == pytest.approx(3 / 4)
    assert metrics.METRICS["recall_micro"](labels, predicted) == pytest.approx(3 / 4)


def test_three_labels():
    labels, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0])
    # Precision: 2/3, 2/3, 0. Recall: 2/3, 1, 0. F1: 2/3, 4/5, 0.
    for name, expected in {
        "precision_macro": (2 / 3 + 2 / 3 + 0) / 3,
        "recall_macro": (2 / 3 + 1 + 0) / 3,
        "f1_macro": (2 / 3 + 4 / 5 + 0) / 3,
        "f1_weighted": (3 * 2 / 3 + 2 * 4 / 5 + 0) / 6,
    }.items():
        assert metrics.METRICS[name](labels, predicted) == pytest.approx(expected)


def test_an_undefined_correlation(caplog):
    assert np.isnan(metrics.METRICS["pearson"](np.float32([1, 2]), np.float32([3, 3])))
    assert "no pearson correlation" in caplog.text


def rows_of(text):
    return [line.split() for line in text.splitlines()]


def test_report_of_labels():
    names = ("no", "yes", "maybe")
    rows = rows_of(metrics.report(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), names))
    assert ["yes", "1.0000", "0.5000", "0.6667", "2"] in rows
    assert rows[-4:] == [
        ["no", "yes", "maybe"],
        ["no", "1", "0", "0"],
        ["yes", "0", "1", "1"],
        ["maybe", "0", "0", "1"],
    ]
    # A label without examples is listed too.
    assert "maybe" in metrics.report(np.array([0, 1]), np.array([0, 1]), names)


def test_report_of_several_labels():
    labels, predicted = np.float32([[1, 0], [1, 1]]), np.float32([[1, 0], [0, 1]])
    rows = rows_of(metrics.report(labels, predicted, ("hot", "salty")))
    assert rows[-2:] == [["hot", "0", "0", "1", "1"], ["salty", "1", "0", "0", "1"]]


def test_report_of_scores():
    rows = rows_of(metrics.report(np.float32([1, 2]), np.float32([2, 5]), ()))
    assert ["mean", "absolute", "error", "2.0000"] in rows
