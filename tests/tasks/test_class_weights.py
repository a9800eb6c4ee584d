"""Label weights in the training loss, given or computed from the training set."""

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.classification.examples import Example, class_weights
from tests.common import QUICK_RUN, write_files, write_model
from tests.tasks.task_helpers import SMALL, make_task_and_batch


def weights(task_type, choice, *label_values, labels=("x", "y")):
    examples = [Example("", "a", None, label) for label in label_values]
    return class_weights(choice, examples, labels, task_type)


def test_balanced_and_given_weights():
    assert weights("classification", ["balanced"], "x", "x", "x", "y") == pytest.approx((4 / 6, 2))
    label_values = ("x",), ("x", "y"), ("x",), ()
    assert weights("multi_label", ["balanced"], *label_values) == pytest.approx((1 / 3, 3))
    assert weights("classification", ["2", ".5"], "x") == (2.0, 0.5)


@pytest.mark.parametrize(
    ("task_type", "choice", "labels", "message"),
    [
        ("regression", "balanced", ["x"], "regression"),
        ("classification", "balanced", ["x"], "'y'"),
        ("multi_label", "balanced", [("x",), ("x", "y")], "'x'"),
        ("classification", "1", ["x"], "2"),
        ("classification", "1,-1", ["x"], "x, y"),
        ("classification", "1,nan", ["x"], "x, y"),
        ("classification", "1,much", ["x"], "x, y"),
    ],
)
def test_weights_that_cannot_be_used(task_type, choice, labels, message):
    with pytest.raises(bert_tf.UserError, match=f"`class_weights.*{message}"):
        weights(task_type, choice.split(","), *labels)


@pytest.mark.parametrize("task_type", ["classification", "multi_label"])
def test_they_are_in_the_training_loss_only(task_type):
    task, batch = make_task_and_batch(task_type, 3)
    outputs = task.model(batch, training=False)
    unweighted = task.predictions(outputs, batch)["loss"].numpy()
    values = np.array([0.5, 1.0, 4.0])
    task.class_weights = values
    np.testing.assert_array_equal(task.predictions(outputs, batch)["loss"], unweighted)
    loss = task.losses(outputs, batch, task.loss_weights(batch))[task.loss_names[0]]
    labels, logits = batch[task.label_name].numpy(), outputs["logits"].numpy()
    if task_type == "classification":
        expected = np.mean(values[labels] * unweighted)
    else:
        positive, negative = np.log1p(np.exp(-logits)), np.log1p(np.exp(logits))
        expected = np.mean(labels * values * positive + (1 - labels) * negative)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


@pytest.fixture
def flags(tmp_path):
    """Write data and model, and return the flags of a run."""
    text = "text\tlabel\n" + "a\tx\nb\ty\n" * 4
    write_files(tmp_path, train__tsv=text, dev__tsv=text)
    return [
        f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", f"--output_dir={tmp_path}/out",
        *write_model(tmp_path, **SMALL), *QUICK_RUN,
    ]  # fmt: skip


@pytest.mark.parametrize(("choice", "expected"), [("balanced", (1, 1)), ("0,1", (0, 1))])
def test_flag(run_script, experiments, flags, choice, expected):
    log = run_script("run_classifier", *flags, f"--class_weights={choice}")
    assert f"class weights: x {expected[0]}, y {expected[1]}" in log
    assert experiments[0].data.make_task().class_weights == expected
