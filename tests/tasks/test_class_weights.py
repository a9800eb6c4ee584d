"""Label weights in the training loss, given or computed from the training set."""

import numpy as np
import pytest

import bert_tf
from bert_tf.configs import FineTuneConfig
from bert_tf.tasks import ClassificationConfig
from bert_tf.tasks.classification import Example, class_weights
from tests.common import QUICK_RUN, read_results, write_files, write_model
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
    ("task_type", "choice", "message"),
    [
        ("regression", ["balanced"], "`class_weights`.*regression"),
        ("classification", ["balanced"], "`class_weights=balanced`.*'y'"),
        ("classification", ["1"], "`class_weights=1`: .*2 non-negative numbers .* x, y$"),
        ("classification", ["1", "-1"], "`class_weights=1,-1`: expected"),
        ("classification", ["1", "nan"], "`class_weights=1,nan`: expected"),
        ("classification", ["1", "much"], "`class_weights=1,much`: expected"),
    ],
)
def test_weights_that_cannot_be_used(task_type, choice, message):
    with pytest.raises(bert_tf.UserError, match=message):
        weights(task_type, choice, "x")


def test_a_label_of_all_examples_cannot_be_balanced():
    with pytest.raises(bert_tf.UserError, match=r"`class_weights=balanced`.*'x'"):
        weights("multi_label", ["balanced"], ("x",), ("x", "y"))


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


def test_options_that_have_no_effect(caplog):
    task_config = ClassificationConfig(class_weights=("balanced",))
    task_config.check(FineTuneConfig("out", task_config, do_eval=True), is_resumed=True)
    assert "`class_weights` has no effect without `do_train`" in caplog.text


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


@pytest.mark.slow
def test_a_label_of_weight_0_is_not_learned(run_script, flags, tmp_path):
    run_script(
        "run_classifier", *flags, "--do_eval", "--class_weights=0,1", "--num_train_epochs=20",
        "--learning_rate=3e-3",
    )  # fmt: skip
    # Every example is predicted to be y, which half of them are.
    results = read_results(tmp_path / "out/eval_results.txt")
    assert float(results["eval_accuracy"]) == 0.5
