"""Scores in any units: initial loss, predictions, and the head outside of its run."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification import ClassificationConfig, RegressionTask
from bert_tf.tasks.classification.examples import ScoreScale
from tests.common import (
    QUICK_RUN,
    TINY,
    model_flags,
    read_table,
    write_files,
    write_model,
    write_vocab,
)
from tests.tasks.task_helpers import make_task_and_batch, small_config


def losses_of(task, batch):
    outputs = task.model({x: batch[x] for x in ("input_ids", "input_mask", "segment_ids")})
    return outputs, task.losses(outputs, batch, task.loss_weights(batch))


@pytest.mark.parametrize("scores", [[0.0, 1.0, 4.0, 5.0], [1990.0, 2000.0, 2010.0, 2024.0]])
def test_the_loss_starts_at_one(scores):
    _, batch = make_task_and_batch("regression", 1)
    batch["label_value"] = tf.constant(scores)
    scale = ScoreScale(np.mean(scores).item(), np.std(scores).item())
    task = RegressionTask(small_config(), 1, scores=scale)
    outputs, losses = losses_of(task, batch)
    assert float(losses["regression_loss"]) == pytest.approx(1.0, abs=0.1)
    # Predictions and their loss have the units of the data.
    predictions = task.predictions(outputs, batch)
    expected = outputs["logits"][:, 0] * scale.deviation + scale.mean
    np.testing.assert_allclose(predictions["score"], expected, rtol=1e-6)
    np.testing.assert_allclose(predictions["loss"], (expected - scores) ** 2, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_runs_in_units_of_the_data(run_script, tmp_path):
    """Covers a run, its predictions, its head elsewhere, a warm start, and an old run."""
    write_model(tmp_path, initializer_range=0.2, num_hidden_layers=1)
    rows = [("a b", 10), ("b a", 20), ("c d", 80), ("d c d", 90)] * 4
    text = "text\tlabel\n" + "".join(f"{x}\t{y}\n" for x, y in rows)
    write_files(tmp_path, train__tsv=text, test__tsv="text\na b\nd c d\n")
    data = ["--task_name=tsv", f"--data_dir={tmp_path}", "--task_type=regression"]

    def run(output, *flags):
        run_script("run_classifier", f"--output_dir={tmp_path}/{output}", *data, *flags)
        return np.float64(read_table(tmp_path / output / "test_results.tsv"))[:, 0]

    train = [*model_flags(tmp_path), *QUICK_RUN, "--do_train", "--learning_rate=0.003"]
    low, high = run("out", *train, "--do_predict", "--num_train_epochs=15")
    assert low < 30 and high > 70
    # The weights as others load them.
    path = f"{tmp_path}/out"
    model = bert_tf.BertClassifier.from_preset(path, num_labels=1)
    ids = np.array([[2, 5, 6, 3, 0], [2, 8, 7, 8, 3]])
    batch = {"input_ids": ids, "input_mask": ids > 0, "segment_ids": 0 * ids}
    logits = model({name: np.int32(x) for name, x in batch.items()})["logits"]
    np.testing.assert_allclose(logits[:, 0], [low, high], rtol=1e-5)
    # A warm start with different units still predicts the scores.
    write_files(tmp_path, train__tsv=text.replace("0\n", "\n"))
    warm = run("warm", *train, f"--init_checkpoint={path}", "--do_predict",
               "--num_train_epochs=1", "--learning_rate=0")  # fmt: skip
    np.testing.assert_allclose(warm, [low, high], rtol=1e-4)
    # Earlier versions did not standardise scores.
    side_file = tmp_path / "out" / "classifier.json"
    values = json.loads(side_file.read_text())
    scale = values.pop("scores")
    assert scale["mean"] == 50
    side_file.write_text(json.dumps(values))
    raw = run("out", "--do_predict")
    np.testing.assert_allclose(raw * scale["deviation"] + 50, [low, high], rtol=1e-4)


def test_a_resumed_run_keeps_its_scale(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    vocab_file = str(write_vocab(tmp_path))
    config = ClassificationConfig(
        TINY, vocab_file, task_type="regression", scores=ScoreScale(2.0, 1.5)
    )
    config.save(str(tmp_path))
    assert ClassificationConfig.load(str(tmp_path)).scores == config.scores
    other = dataclasses.replace(config, scores=ScoreScale(0.0, 1.0))
    assert other.resumed(str(tmp_path)).scores == config.scores
    assert "keeps its mean and standard deviation of the scores: 2 and 1.5" in caplog.text
    dataclasses.replace(config, scores=None).save(str(tmp_path))
    assert other.resumed(str(tmp_path)).scores is None
