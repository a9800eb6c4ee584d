"""The three kinds of task: their losses, their metrics, and the files that their answers end in."""

import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_training import config

import bert_tf
from bert_tf import tasks
from bert_tf.data import input_pipeline, records
from bert_tf.tasks import classification, metrics


def example(label):
    return classification.Example("x, line 1", "a", None, label)


def features(vocabulary, examples, labels, kind):
    (vocabulary / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    )
    tokenizer = bert_tf.FullTokenizer(str(vocabulary / "vocab.txt"))
    path = str(vocabulary / f"{kind}.tf_record")
    tasks.classification.write_features(
        path, examples, labels, tokenizer, 5, tasks.TASK_CLASSES[kind]
    )
    lengths = {"S": 5, "L": max(1, len(labels))}
    data = input_pipeline.EvaluationInput(
        [path], tasks.TASK_CLASSES[kind].schema, lengths, len(examples)
    )
    return next(iter(data.batches()))


def test_labels_in_records(tmp_path):
    found = features(tmp_path, [example("y"), example(None)], ("x", "y"), "classification")
    np.testing.assert_array_equal(found["label_ids"], [1, 0])
    found = features(tmp_path, [example(2.25), example(None)], (), "regression")
    np.testing.assert_array_equal(found["label_value"], np.float32([2.25, 0]))
    several = [example(("z", "x")), example(()), example(None)]
    found = features(tmp_path, several, ("x", "y", "z"), "multi_label")
    np.testing.assert_array_equal(found["label_values"], [[1, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert found["label_values"].dtype == tf.float32
    for kind, label in (("classification", "w"), ("multi_label", ("x", "w"))):
        with pytest.raises(bert_tf.UserError, match=r"x, line 1: the label .* is not one of x, y"):
            features(tmp_path, [example(label)], ("x", "y"), kind)


def made(kind, num_labels):
    """A batch of four with labels of that kind, and a task."""
    rng = np.random.default_rng(0)
    labels = {
        "classification": rng.integers(0, num_labels, 4).astype("int32"),
        "regression": rng.normal(size=4).astype("float32"),
        "multi_label": rng.integers(0, 2, (4, num_labels)).astype("float32"),
    }
    batch = {
        "input_ids": rng.integers(0, 30, (4, 6)).astype("int32"),
        "input_mask": np.ones((4, 6), "int32"),
        "segment_ids": np.zeros((4, 6), "int32"),
    }
    keras.utils.set_random_seed(1)
    task = tasks.TASK_CLASSES[kind](config(), num_labels)
    for weights in task.model.trainable_variables[-2:]:
        weights.assign(rng.normal(size=weights.shape))  # so that the answers are not all alike
    return task, {**batch, task.label_name: labels[kind]}


@pytest.mark.parametrize(
    ("kind", "num_labels", "loss"),
    [
        ("classification", 3, lambda y, z: -np.log(np.exp(z) / np.exp(z).sum())[y]),
        ("regression", 1, lambda y, z: (z[0] - y) ** 2),
        (
            "multi_label",
            3,
            lambda y, z: np.mean(y * np.log1p(np.exp(-z)) + (1 - y) * np.log1p(np.exp(z))),
        ),
    ],
)
def test_losses(kind, num_labels, loss):
    """Each example's loss is what the formula says; that of the batch is their mean."""
    task, batch = made(kind, num_labels)
    batch = {name: tf.constant(value) for name, value in batch.items()}
    outputs = task.model(batch, training=False)
    logits = outputs["logits"].numpy()
    expected = [loss(y, z) for y, z in zip(batch[task.label_name].numpy(), logits, strict=True)]
    predictions = task.predictions(outputs, batch)
    np.testing.assert_allclose(predictions["loss"], expected, rtol=1e-4)
    (name,) = task.loss_names
    found = task.losses(outputs, batch, task.loss_weights(batch))[name]
    np.testing.assert_allclose(found, np.mean(expected), rtol=1e-4)
    assert predictions[task.answer_name].shape == ((4,) if num_labels == 1 else (4, num_labels))
    results = task.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(results) == sorted(task.metric_names)
    assert results["loss"] == results["eval_loss"] == pytest.approx(np.mean(expected), rel=1e-4)


@pytest.mark.parametrize("kind", tasks.TASK_CLASSES)
def test_metrics_are_named_exactly(kind):
    task = tasks.TASK_CLASSES[kind](config(), 1 if kind == "regression" else 2)
    assert (
        task.metric_names
        == {
            "classification": ("eval_accuracy", "eval_loss", "loss"),
            "regression": ("eval_pearson", "eval_spearman", "eval_loss", "loss"),
            "multi_label": ("eval_accuracy", "eval_f1_micro", "eval_f1_macro", "eval_loss", "loss"),
        }[kind]
    )
    for name, more in (("cola", "eval_matthews"), ("mrpc", "eval_f1"), ("qqp", "eval_f1")):
        task = tasks.ClassificationTask(
            config(), 2, None, tasks.classification.find_task(name).metrics
        )
        assert set(task.metric_names) == {"eval_accuracy", more, "eval_loss", "loss"}


def test_figures():
    """By hand, from the definitions."""
    true, found = np.array([1, 1, 1, 0, 0, 1]), np.array([1, 1, 0, 0, 1, 1])
    tp, tn, fp, fn = 3, 1, 1, 1
    assert metrics.METRICS["accuracy"](true, found) == pytest.approx(4 / 6)
    assert metrics.METRICS["f1"](true, found) == pytest.approx(2 * tp / (2 * tp + fp + fn))
    expected = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert metrics.METRICS["matthews"](true, found) == pytest.approx(expected)
    scores, guessed = np.float32([0, 1, 2, 5]), np.float32([1, 2, 3, 9])
    expected = np.corrcoef(scores.astype(float), guessed)[0, 1]
    assert metrics.METRICS["pearson"](scores, guessed) == pytest.approx(expected)
    assert metrics.METRICS["spearman"](scores, guessed) == pytest.approx(1.0)
    # Label 0: tp 2, fn 0, fp 1. Label 1: tp 1, fn 1, fp 0. Label 2 nowhere: its F1 counts as 0.
    true = np.float32([[1, 1, 0], [1, 0, 0], [0, 1, 0]])
    found = np.float32([[1, 1, 0], [1, 0, 0], [1, 0, 0]])
    assert metrics.METRICS["accuracy"](true, found) == pytest.approx(2 / 3)
    assert metrics.METRICS["f1_micro"](true, found) == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert metrics.METRICS["f1_macro"](true, found) == pytest.approx((4 / 5 + 2 / 3 + 0) / 3)


def test_a_correlation_that_there_is_not(caplog):
    assert np.isnan(metrics.METRICS["pearson"](np.float32([1, 2]), np.float32([3, 3])))
    assert "no pearson correlation" in caplog.text


def test_reports():
    text = metrics.report(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), ("no", "yes", "maybe"))
    lines = [line.split() for line in text.splitlines()]
    assert ["yes", "1.0000", "0.5000", "0.6667", "2"] in lines
    assert lines[-4:] == [
        ["no", "yes", "maybe"],
        ["no", "1", "0", "0"],
        ["yes", "0", "1", "1"],
        ["maybe", "0", "0", "1"],
    ]
    # A label that is not among these examples has a row too.
    assert "maybe" in metrics.report(np.array([0, 1]), np.array([0, 1]), ("no", "yes", "maybe"))
    true, found = np.float32([[1, 0], [1, 1]]), np.float32([[1, 0], [0, 1]])
    lines = metrics.report(true, found, ("hot", "salty")).splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["hot", "0", "0", "1", "1"],
        ["salty", "1", "0", "0", "1"],
    ]
    text = metrics.report(np.float32([1, 2]), np.float32([2, 5]), ())
    assert ["mean", "absolute", "error", "2.0000"] in [line.split() for line in text.splitlines()]


def test_decisions():
    probabilities = np.float32([[0.5, 0.49], [0.2, 0.7]])
    found = tasks.classification.MultiLabelTask.decide({"probabilities": probabilities})
    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])
    found = tasks.ClassificationTask.decide({"probabilities": probabilities})
    np.testing.assert_array_equal(found, [0, 1])


def test_answers_as_text():
    assert tasks.results.as_text(np.array([1, 0]), ("x", "y")) == ["y", "x"]
    assert tasks.results.as_text(np.float32([[1, 1], [0, 0]]), ("x", "y"), "; ") == ["x; y", ""]
    assert tasks.results.as_text(np.float32([0.5, 4]), ()) == ["0.5", "4.0"]


def test_files_of_predictions(tmp_path):
    answers = np.float32([[0.25, 0.75], [1, 0]])
    path = tmp_path / "test_results.tsv"
    tasks.results.write_test_results(str(path), answers)
    assert path.read_text() == "0.25\t0.75\n1.0\t0.0\n"
    tasks.results.write_test_results(str(path), np.float32([0.5, 4]))
    assert path.read_text() == "0.5\n4.0\n"
    path = tmp_path / "test_predictions.tsv"
    tasks.results.write_predictions(str(path), ["7", "8"], ["y", "a\tb\nc"], ("x", "y"), answers)
    assert path.read_text() == ("id\tprediction\tx\ty\n7\ty\t0.25\t0.75\n8\ta b c\t1.0\t0.0\n")
    tasks.results.write_predictions(str(path), ["7", "8"], ["0.5", "4.0"], (), np.float32([0.5, 4]))
    assert path.read_text() == "id\tprediction\n7\t0.5\n8\t4.0\n"


def test_submissions_gather_in_one_zip(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    folder = tmp_path / "glue"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes.tsv").write_text("mine")
    mnli = tasks.classification.find_task("mnli")
    tasks.results.write_submission(str(folder), mnli, "test", ["1", "0"], ["neutral", "entailment"])
    assert (folder / "MNLI-m.tsv").read_text() == ("index\tprediction\n0\tentailment\n1\tneutral\n")
    tasks.results.write_submission(str(folder), mnli, "test_mismatched", ["0"], ["contradiction"])
    tasks.results.write_submission(
        str(folder), tasks.classification.find_task("ax"), "test_ax", ["0"], ["neutral"]
    )
    # Scores are kept within what the leaderboard takes.
    stsb = tasks.classification.find_task("sts-b")
    tasks.results.write_submission(
        str(folder), stsb, "test", ["0", "1", "2"], ["-0.2", "5.3", "2.12345"]
    )
    with zipfile.ZipFile(folder / "submission.zip") as archive:
        assert archive.namelist() == ["STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
        text = archive.read("STS-B.tsv").decode()
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.123\n"
    assert "not yet CoLA, SST-2, MRPC, QQP, QNLI, RTE, WNLI" in caplog.messages[-1]
    before = (folder / "submission.zip").read_bytes()
    for ids in (["0", "2"], ["1", "2"], ["0", "0"], ["0", "x"]):
        with pytest.raises(bert_tf.UserError, match=r"SST-2.tsv wants a prediction for each row"):
            tasks.results.write_submission(
                str(folder), tasks.classification.find_task("sst2"), "test", ids, ["0", "1"]
            )
    assert not (folder / "SST-2.tsv").exists()
    assert (folder / "submission.zip").read_bytes() == before


def test_all_of_glue_can_be_handed_in():
    names = {
        name
        for task in tasks.classification.glue.TASKS.values()
        for name in task.submission.values()
    }
    assert names == {
        "CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX"
    }  # fmt: skip


def test_schemas_differ_in_the_label_alone():
    tokens = {"input_ids", "input_mask", "segment_ids", "is_real_example"}
    for task in tasks.TASK_CLASSES.values():
        assert set(task.schema) == tokens | {task.label_name}
    assert tasks.ClassificationTask.schema is records.CLASSIFICATION
