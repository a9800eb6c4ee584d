"""The best checkpoint of a run: how it is chosen, kept and resumed; early stopping."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, configs, training
from bert_tf.training.pretraining import PretrainingObjective
from tests.training import training_helpers as helpers


class ScriptedObjective(PretrainingObjective):
    """A task whose evaluations return metrics scripted by the test."""

    script = ()
    num_evaluations = 0

    def metrics(self, predictions):
        value = self.script[self.num_evaluations]
        self.num_evaluations += 1
        return {"accuracy": value, "loss": -value}


def run_scripted(output_dir, script, steps, start=0, **options):
    """Train with an evaluation every 2 steps; the first returns `script[start]`."""
    keras.utils.set_random_seed(7)

    def make_objective():
        objective = ScriptedObjective(helpers.config(0.1))
        objective.script, objective.num_evaluations = script, start
        return objective

    loop = training.Loop(
        make_objective, training.TensorFlowEngine(helpers.one_device()), str(output_dir)
    )
    train = configs.TrainConfig(eval_steps=2, **options)
    loop.train(helpers.Batches(), helpers.make_adam(loop), steps, train, helpers.SomeBatches())
    return loop


def read_record(output_dir):
    return json.loads((output_dir / "best" / "best.json").read_text())


PATIENCE = {"best_metric": "accuracy", "early_stopping_patience": 2}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """The folder of a run that early stopping ended at step 8; step 4 is the best."""
    folder = tmp_path_factory.mktemp("scripted")
    loop = run_scripted(folder, [0.1, 0.5, 0.3, 0.4, 0.9], 100, **PATIENCE)
    assert loop.step == 8
    return folder


def test_best_checkpoint_is_kept(scripted):
    expected = {"metric": "accuracy", "value": 0.5, "step": 4, "since": [6, 8]}
    expected["data"] = helpers.SomeBatches.fingerprint
    assert read_record(scripted) == expected
    assert sorted(os.listdir(scripted / "best")) == [  # the folder of the run has no config either
        "best.json",
        "checkpoint",
        "model.ckpt-4.data-00000-of-00001",
        "model.ckpt-4.index",
    ]
    at_4 = checkpoints.ReleaseCheckpoint(str(scripted / "model.ckpt-4"))
    best = helpers.tensors(scripted / "best")
    assert not any("adam" in name for name in best), "only weights are kept"
    for name, value in best.items():
        np.testing.assert_array_equal(value, at_4.tensor(name))
    loop = helpers.make_loop(scripted, ScriptedObjective, 0.1)
    loop.load_best("accuracy")
    assert loop.step == 4
    weight = checkpoints.weights(loop.model)["bert/pooler/dense/kernel"]
    np.testing.assert_array_equal(weight, best["bert/pooler/dense/kernel"])


def test_run_that_was_stopped_early_stays_stopped(scripted, caplog):
    caplog.set_level("INFO")
    run_scripted(scripted, [], 100, **PATIENCE)
    assert "nothing to do, the run is at step 8 and was stopped early" in caplog.text


def test_run_of_the_release_is_resumed(scripted, tmp_path, caplog):
    """A folder of the release has weights, moments and the step, but no state of bert_tf."""
    values = helpers.tensors(scripted)
    assert any(name.startswith("bert_tf/") for name in values)
    values = {name: x for name, x in values.items() if not name.startswith("bert_tf/")}
    checkpoints.write(str(tmp_path / "model.ckpt-8"), values)
    loop = run_scripted(tmp_path, [0.1], 8)
    assert "model.ckpt-8 has no bert_tf/seed_0" in caplog.text
    assert loop.step == 8


def evaluated_steps(output_dir):
    return [
        event.step
        for path in sorted((output_dir / "eval").iterdir())
        for event in tf.compat.v1.train.summary_iterator(str(path))
        if event.summary.value and event.summary.value[0].tag == "loss"
    ]


@pytest.mark.slow
def test_evaluation_does_not_change_the_training(scripted, tmp_path):
    loop = helpers.make_loop(tmp_path, PretrainingObjective, 0.1)
    loop.train(helpers.Batches(), helpers.make_adam(loop), 8)
    helpers.assert_same(scripted, tmp_path)
    assert evaluated_steps(scripted) == [2, 4, 6, 8]


@pytest.mark.slow
def test_interrupted_evaluation_runs_again(tmp_path):
    for script in ([0.1], [0.2, 0.3]):  # the evaluations at steps 4 and 8 fail
        with pytest.raises(IndexError):
            run_scripted(tmp_path, script, 10)
    run_scripted(tmp_path, [0.4, 0.5], 10)
    run_scripted(tmp_path, [], 10)
    assert evaluated_steps(tmp_path) == [2, 4, 6, 8, 10]


def test_without_a_best_checkpoint_is_an_error(tmp_path):
    loop = helpers.make_loop(tmp_path, ScriptedObjective)
    with pytest.raises(bert_tf.UserError, match="best_metric"):
        loop.load_best("accuracy")
