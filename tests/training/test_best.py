"""Evaluation in the course of training: the best checkpoint is kept, and a run stops in time."""

import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from test_training import Batches, Labelled, SomeBatches, assert_same, config, tensors

import bert_tf
from bert_tf import checkpoints, optimization, tasks, training


class Scripted(tasks.PretrainingTask):
    """A task whose metrics are what the test says, evaluation by evaluation."""

    metric_names = ("accuracy", "loss")
    script = ()

    def metrics(self, predictions):
        value = self.script[self.evaluations]
        self.evaluations += 1
        return {"accuracy": value, "loss": -value}

    evaluations = 0


def run(output_dir, script, steps, start=0, **options):
    """Evaluates every 2 steps; the `start`-th value of the script comes first."""
    training.set_seed(7)

    def make():
        task = Scripted(config(0.1))
        task.script, task.evaluations = script, start
        return task

    trainer = training.Trainer(
        make, training.make_strategy(distribution_strategy="one_device"), str(output_dir)
    )
    trainer.train(
        Batches(),
        optimization.AdamWeightDecay(lambda step: 1e-3),
        steps,
        training.TrainConfig(eval_steps=2, **options),
        SomeBatches(),
    )
    return trainer


@pytest.mark.parametrize("metric", ["accuracy", pytest.param("loss", marks=pytest.mark.slow)])
def test_the_best_is_kept(tmp_path, metric):
    trainer = run(tmp_path, [0.1, 0.5, 0.3, 0.5], 8, best_metric=metric, save_checkpoints_steps=4)
    folder = tmp_path / "best"
    record = json.loads((folder / "best.json").read_text())
    sign = -1 if metric == "loss" else 1
    assert record == {"metric": metric, "value": sign * 0.5, "step": 4, "since": [6, 8]}
    assert sorted(os.listdir(folder)) == [  # no config: nothing lies in the run's folder either
        "best.json",
        "checkpoint",
        "model.ckpt-4.data-00000-of-00001",
        "model.ckpt-4.index",
    ]
    at_4 = checkpoints.ReleaseCheckpoint(str(tmp_path / "model.ckpt-4"))
    best = tensors(folder)
    assert not any("adam" in name for name in best), "weights alone"
    for name, value in best.items():
        np.testing.assert_array_equal(value, at_4.tensor(name))
    trainer.use_best(metric)
    assert trainer.step == 4
    weight = training.checkpointing.weights(trainer.model)["bert/pooler/dense/kernel"]
    np.testing.assert_array_equal(weight, best["bert/pooler/dense/kernel"])


def test_a_run_stops_early_and_stays_stopped(tmp_path, caplog):
    caplog.set_level("INFO")
    options = {"best_metric": "accuracy", "early_stopping_patience": 2}
    trainer = run(tmp_path, [0.1, 0.5, 0.3, 0.4, 0.9], 100, **options)
    assert trainer.step == 8
    assert "training: stopped early at step 8" in caplog.text
    run(tmp_path, [], 100, **options)
    assert "nothing to do, the run is at step 8, where it was stopped early" in caplog.text


def test_the_best_outlives_the_process(tmp_path):
    """Of two processes, the second knows what the first has found and when."""
    options = {"best_metric": "accuracy", "early_stopping_patience": 2}
    script = [0.1, 0.5, 0.3, 0.4, 0.9]
    run(tmp_path / "parts", script, 6, **options)
    trainer = run(tmp_path / "parts", script, 100, start=3, **options)
    assert trainer.step == 8
    run(tmp_path / "whole", script, 100, **options)
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_what_is_no_number_is_not_the_best(tmp_path):
    run(tmp_path / "some", [np.nan, 0.5, np.nan, 0.4], 8, best_metric="accuracy")
    assert json.loads((tmp_path / "some" / "best" / "best.json").read_text())["step"] == 4
    options = {"best_metric": "accuracy", "early_stopping_patience": 2}
    assert run(tmp_path / "none", [np.nan] * 9, 18, **options).step == 4, "patience ends"


def test_the_best_of_steps_to_come_counts_no_more(tmp_path, caplog):
    """A run is set back, and its best would never be reached again."""
    run(tmp_path, [0.1, 0.2, 0.9], 6, best_metric="accuracy", save_checkpoints_steps=2)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    run(tmp_path, [0.1, 0.3, 0.2], 8, best_metric="accuracy")
    assert "is of step 6, but the run is at step 4" in caplog.text
    record = json.loads((tmp_path / "best" / "best.json").read_text())
    assert (record["step"], record["value"], record["since"]) == (6, 0.3, [8])


@pytest.mark.slow
def test_an_evaluation_that_was_cut_off_is_made_first(tmp_path, monkeypatch):
    """SIGTERM comes while it runs: the step is saved, and nothing of it is lost."""
    options = {"best_metric": "accuracy", "save_checkpoints_steps": 100}
    evaluate = training.Trainer.evaluate

    def interrupted(self, *args, is_stopped, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *args, is_stopped=is_stopped, **kwargs)

    monkeypatch.setattr(training.Trainer, "evaluate", interrupted)
    with pytest.raises(bert_tf.errors.Stopped, match="stopped by SIGTERM at step 2, which is sav"):
        run(tmp_path / "parts", [0.5], 6, **options)
    monkeypatch.undo()
    run(tmp_path / "parts", [0.5, 0.1, 0.2], 6, **options)
    record = json.loads((tmp_path / "parts" / "best" / "best.json").read_text())
    assert (record["step"], record["since"]) == (2, [4, 6])
    run(tmp_path / "whole", [0.5, 0.1, 0.2], 6, **options)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert_same(tmp_path / "whole" / "best", tmp_path / "parts" / "best")


def test_evaluation_changes_nothing(tmp_path):
    run(tmp_path / "a", [0.1] * 4, 8)
    training.set_seed(7)
    trainer = training.Trainer(
        lambda: tasks.PretrainingTask(config(0.1)),
        training.make_strategy(distribution_strategy="one_device"),
        str(tmp_path / "b"),
    )
    trainer.train(Batches(), optimization.AdamWeightDecay(lambda step: 1e-3), 8)
    assert_same(tmp_path / "a", tmp_path / "b")
    events = list((tmp_path / "a" / "eval").iterdir())
    steps = {
        event.step
        for path in events
        for event in tf.compat.v1.train.summary_iterator(str(path))
        if event.summary.value
    }
    assert steps == {2, 4, 6, 8}


def test_metrics_are_named_before_anything_is_trained(tmp_path):
    with pytest.raises(
        bert_tf.UserError, match=r"--best_metric: f1 is no metric of this task, .* accuracy, loss"
    ):
        run(tmp_path, [], 4, best_metric="f1")
    run(tmp_path, [0.1, 0.2], 4, best_metric="loss")
    with pytest.raises(bert_tf.UserError, match="holds the best by loss"):
        run(tmp_path, [0.1, 0.2], 8, best_metric="accuracy")


def test_no_best_is_an_error(tmp_path):
    trainer = run(tmp_path, [0.1], 2)
    with pytest.raises(bert_tf.UserError, match=r"there is no best checkpoint in .*best"):
        trainer.use_best("accuracy")


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (lambda: tasks.PretrainingTask(config()), Batches().make(1)),
        (lambda: tasks.ClassificationTask(config(), 3), Labelled().make(1)),
    ],
)
def test_tasks_name_the_metrics_that_they_have(make, batch):
    task = make()
    batch = {name: tf.constant(value) for name, value in batch.items()}
    predictions = task.predictions(task.model(batch), batch)
    found = task.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(found) == sorted(task.metric_names)
