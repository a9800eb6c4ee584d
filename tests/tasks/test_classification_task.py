"""The three types of classification tasks: losses, predictions, metrics and the initial score."""

import numpy as np
import pytest

from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.data import ClassificationData
from bert_tf.tasks.classification.examples import Example
from bert_tf.tasks.classification.glue import custom_dataset
from tests.tasks.task_helpers import make_task_and_batch, small_config


@pytest.mark.parametrize(
    ("task_type", "num_labels", "loss"),
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
def test_losses(task_type, num_labels, loss):
    """The loss of an example follows the formula; the loss of a batch is the mean."""
    task, batch = make_task_and_batch(task_type, num_labels)
    outputs = task.model(batch, training=False)
    logits = outputs["logits"].numpy()
    expected = [loss(y, z) for y, z in zip(batch[task.label_name].numpy(), logits, strict=True)]
    predictions = task.predictions(outputs, batch)
    np.testing.assert_allclose(predictions["loss"], expected, rtol=1e-4)
    (name,) = task.loss_names
    batch_loss = task.losses(outputs, batch, task.loss_weights(batch))[name]
    np.testing.assert_allclose(batch_loss, np.mean(expected), rtol=1e-4)
    assert predictions[task.answer_name].shape == ((4,) if num_labels == 1 else (4, num_labels))
    metrics = task.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(metrics) == sorted(task.metric_names)
    assert metrics["loss"] == metrics["eval_loss"] == pytest.approx(np.mean(expected), rel=1e-4)


@pytest.mark.parametrize(("scores", "warns"), [((1.0, 2.0, 6.0), False), ((0.0, 100.0), True)])
def test_a_new_regression_head_starts_at_the_mean(scores, warns, caplog):
    config = ClassificationConfig(small_config(), task_type="regression")
    examples = {"train": [Example("", "a", None, score) for score in scores]}
    task = ClassificationData(custom_dataset("regression"), examples, config).make_task()
    _, batch = make_task_and_batch("regression", 1)
    logits = task.model(batch, training=False)["logits"]
    np.testing.assert_allclose(logits, np.full((4, 1), np.mean(scores)), atol=0.5)
    assert ("standard deviation of 50;" in caplog.text) == warns
