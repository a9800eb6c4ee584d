"""The three types of classification tasks: losses, predictions, metrics and the initial score."""

import numpy as np
import pytest

from tests.common import QUICK_RUN, write_files, write_model
from tests.tasks.task_helpers import make_objective_and_batch


def softplus(x):
    return np.log1p(np.exp(x))


@pytest.mark.parametrize("class_weights", [None, (0.5, 1.0, 4.0)])
@pytest.mark.parametrize(
    ("task_type", "loss"),
    [
        ("classification", lambda y, z, w: (w * -np.log(np.exp(z) / np.exp(z).sum()))[y]),
        ("regression", lambda y, z, w: (z[0] - y) ** 2),
        ("multi_label", lambda y, z, w: np.mean(w * y * softplus(-z) + (1 - y) * softplus(z))),
    ],
)
def test_losses(task_type, loss, class_weights):
    """The loss of an example is the formula's; class weights are in the training loss only."""
    num_labels = 1 if task_type == "regression" else 3
    objective, batch = make_objective_and_batch(task_type, num_labels)
    objective.class_weights = class_weights
    outputs = objective.model(batch, training=False)
    logits, labels = outputs["logits"].numpy(), batch[objective.label_name].numpy()
    weighted, expected = (
        [loss(y, z, np.array(w)) for y, z in zip(labels, logits, strict=True)]
        for w in (class_weights or (1,) * 3, (1,) * 3)
    )
    predictions = objective.predictions(outputs, batch)
    np.testing.assert_allclose(predictions["loss"], expected, rtol=1e-4)
    for training, values in ((True, weighted), (False, expected)):
        (total,) = objective.losses(
            outputs, batch, objective.loss_weights(batch), training
        ).values()
        np.testing.assert_allclose(total, np.mean(values), rtol=1e-4)
    assert predictions[objective.answer_name].shape == (
        (4,) if num_labels == 1 else (4, num_labels)
    )
    metrics = objective.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(metrics) == sorted(objective.metric_names)
    assert metrics["loss"] == metrics["eval_loss"] == pytest.approx(np.mean(expected), rel=1e-4)
    for name, (values, _) in objective.fit_metrics(outputs, batch).items():
        assert np.mean(values) == metrics.get(f"eval_{name}", np.mean(values))


@pytest.mark.parametrize(("choice", "expected"), [("balanced", (1, 1)), ("0,1", (0, 1))])
def test_the_flag_of_class_weights(run_script, experiments, tmp_path, choice, expected):
    write_files(tmp_path, train__tsv="text\tlabel\n" + "a\tx\nb\ty\n" * 4)
    run_script(
        "run_classifier", f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train",
        f"--output_dir={tmp_path}/out", f"--class_weights={choice}", *write_model(tmp_path),
        *QUICK_RUN,
    )  # fmt: skip
    (run,) = experiments
    assert run.task.objective(run.data).class_weights == expected
