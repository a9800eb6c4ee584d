"""Runs that are killed at any moment and started again end as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from test_training import Batches, assert_same, run, tensors

from bert_tf import training
from bert_tf.data import input_pipeline, records

# Many saves and a return to the host after each step, so that a signal meets all there is to meet.
OPTIONS = {
    "steps": 150,
    "save": 3,
    "dropout": 0.1,
    "seconds_per_loop": 0.0,
    "eval_steps": 50,
    "best_metric": "loss",
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Three files of records, whose batches no epoch ends with."""
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / f"{i}.tfrecord") for i in range(3)]
    with records.writing(paths, records.PRETRAINING) as write:
        for step in range(11):
            batch = Batches().make(step)
            for row in range(4):
                write({name: value[row] for name, value in batch.items()})
    return paths


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(2, marks=pytest.mark.slow)],
    ids=["one device", "two devices"],
)
def whole(request, paths, tmp_path_factory):
    """A run that is left alone: its folder, and the options to make it again."""
    options = {**OPTIONS, "paths": paths, "replicas": request.param}
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder, options).wait(300) == 0
    return folder, options


def start(folder, options, logs=None):
    """Starts a run of train_alone.py, whose output goes to `log` in `logs` or else its folder."""
    script = os.path.join(os.path.dirname(__file__), "train_alone.py")
    command = [sys.executable, script, str(folder), json.dumps(options)]
    with open(os.path.join(logs or folder, "log"), "a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def log(folder):
    return (folder / "log").read_text()


def kill_again_and_again(folder, options, times, seed):
    """Kills the run at random moments after its first step, and lets it end at last.

    The last of them is after a checkpoint, however slow the machine is.
    """
    moments = random.Random(seed)

    def waits(count):
        wants_more = count == times - 1 and not any(folder.glob("model.ckpt-*.index"))
        return log(folder).count("compiled") == count or wants_more

    for count in range(times):
        process = start(folder, options)
        while process.poll() is None and waits(count):
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        if process.wait(60) == 0:  # it was quicker
            return
    assert start(folder, options).wait(300) == 0


def test_killed_at_random_times(whole, tmp_path):
    folder, options = whole
    kill_again_and_again(tmp_path, options, times=2, seed=options["replicas"])
    assert log(tmp_path).count("weights: from this run's own") >= 1
    assert_same(folder, tmp_path)
    assert_same(folder / "best", tmp_path / "best")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_times_often(whole, tmp_path, seed):
    folder, options = whole
    kill_again_and_again(tmp_path, options, times=8, seed=100 + seed)
    assert_same(folder, tmp_path)


# Each operation that gives a checkpoint its names or takes an older one away, and a later save of
# which it is killed before it.
OPERATIONS = [
    ("rename", r"model\.ckpt-\d+\.data-00000-of-00001", 3),
    ("rename", r"model\.ckpt-\d+\.index", 3),
    ("rename", "checkpoint", 2),
    ("remove", r"model\.ckpt-\d+\.index", 2),
    ("remove", r"model\.ckpt-\d+\.data-00000-of-00001", 1),
]


@pytest.mark.slow
def test_killed_while_it_writes_a_checkpoint(paths, tmp_path):
    options = {**OPTIONS, "paths": paths, "steps": 45}
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    assert start(tmp_path / "whole", options).wait(300) == 0
    for operation in OPERATIONS:
        process = start(tmp_path / "killed", {**options, "die_before": operation})
        assert process.wait(300) == -signal.SIGKILL
        assert f"killed before it {operation[0]}s" in log(tmp_path / "killed").splitlines()[-1]
    assert start(tmp_path / "killed", options).wait(300) == 0
    assert_same(tmp_path / "whole", tmp_path / "killed")
    assert not list((tmp_path / "killed").glob("*.tmp-*"))


@pytest.mark.slow
def test_asked_to_stop_it_saves_and_says_so(paths, tmp_path):
    options = {**OPTIONS, "paths": paths, "save": 100000, "steps": 100000}
    process = start(tmp_path, options)
    while "compiled" not in log(tmp_path) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75
    assert "stopped by SIGTERM at step" in log(tmp_path)
    assert tensors(tmp_path)["global_step"] > 0


def test_other_batch_size_or_seed_is_said(tmp_path, paths, caplog):
    lengths = {"S": 8, "P": 1}
    run(
        tmp_path,
        2,
        total=4,
        data=input_pipeline.TrainingInput(paths, records.PRETRAINING, lengths, 4, 3),
    )
    training.set_seed(7)
    run(tmp_path, 4, data=input_pipeline.TrainingInput(paths, records.PRETRAINING, lengths, 8, 5))
    assert "with --train_batch_size=4, which goes on with 8" in caplog.text
    assert "with --seed=3, which goes on with 5" in caplog.text


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path, paths):
    def train(name, seed):
        training.set_seed(seed)
        data = input_pipeline.TrainingInput(paths, records.PRETRAINING, {"S": 8, "P": 1}, 4, seed)
        run(tmp_path / name, 5, dropout=0.1, data=data)
        return tensors(tmp_path / name)["bert/pooler/dense/kernel"]

    first = train("a", 1)
    np.testing.assert_array_equal(first, train("b", 1))
    assert np.abs(first - train("c", 2)).max() > 1e-3
