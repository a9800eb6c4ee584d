"""Result files: predictions."""

import numpy as np

from bert_tf.training import results


def test_predictions_as_text():
    assert results.as_text(np.array([1, 0]), ("x", "y")) == ["y", "x"]
    assert results.as_text(np.float32([[1, 1], [0, 0]]), ("x", "y"), "; ") == ["x; y", ""]
    assert results.as_text(np.float32([0.5, 4]), ()) == ["0.5", "4.0"]


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
