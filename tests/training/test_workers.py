"""Two processes on this machine train as one: the same numbers, and they stop together."""

import json
import os
import signal
import socket
import time

import pytest
from test_killed import log, start
from test_training import SomeBatches, assert_same, mirrored, run, run_classifier, tensors

import bert_tf
from bert_tf import training
from bert_tf.training.strategy import tf_config


def worker_environments():
    """TF_CONFIG of each of two workers on free ports of this machine."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(2)
    ]


def start_workers(folder, options, monkeypatch):
    """Starts two workers with a log each and one output folder."""
    processes = []
    for index, environment in enumerate(worker_environments()):
        monkeypatch.setenv("TF_CONFIG", environment)
        logs = folder / f"worker{index}"
        logs.mkdir(exist_ok=True)
        processes.append(start(folder / "run", options, logs))
    monkeypatch.delenv("TF_CONFIG")
    return processes


def wait(processes, seconds=200):
    return [process.wait(seconds) for process in processes]


def test_two_workers_make_the_same_steps(tmp_path, monkeypatch):
    """Of pre-training with uneven masks, and of a classifier with labels of unequal weight."""
    options = {"steps": 20, "classifier_dir": str(tmp_path / "run_classifier")}
    processes = start_workers(tmp_path, options, monkeypatch)
    training.set_seed(7)
    run_classifier(tmp_path / "one_classifier")
    training.set_seed(7)
    trainer = run(tmp_path / "one", 20)
    expected = trainer.evaluate(SomeBatches())
    assert wait(processes) == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "run", atol=1e-5)
    assert_same(tmp_path / "one_classifier", tmp_path / "run_classifier", atol=1e-5)
    for index in range(2):  # each knows the results of all examples
        results = json.loads(log(tmp_path / f"worker{index}").splitlines()[-1])
        assert results == pytest.approx(expected, abs=1e-5)
    names = os.listdir(tmp_path / "run")
    assert len([name for name in names if "tfevents" in name]) == 1, "the chief's alone"


def _let_them_begin(tmp_path, processes):
    while any(process.poll() is None for process in processes):
        if all("compiled" in log(tmp_path / f"worker{index}") for index in range(2)):
            return
        time.sleep(0.05)
    raise AssertionError(log(tmp_path / "worker0"))


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_all_at_one_step_and_they_go_on(tmp_path, monkeypatch):
    options = {"steps": 2000, "total": 2000, "dropout": 0.1, "seconds_per_loop": 0.05}
    processes = start_workers(tmp_path, options, monkeypatch)
    _let_them_begin(tmp_path, processes)
    processes[1].send_signal(signal.SIGTERM)
    assert wait(processes) == [75, 75]
    assert "stopped by another worker's signal at step" in log(tmp_path / "worker0")
    step = int(tensors(tmp_path / "run")["global_step"])
    assert 0 < step < 2000
    options["steps"] = step + 3
    processes = start_workers(tmp_path, options, monkeypatch)
    assert wait(processes) == [0, 0]
    assert f"training: step {step} to {step + 3}" in log(tmp_path / "worker1")
    # As if nothing had happened, on two devices of one process: up to the order of sums.
    training.set_seed(7)
    run(tmp_path / "whole", step + 3, mirrored(2), dropout=0.1, total=2000)
    assert_same(tmp_path / "whole", tmp_path / "run", atol=1e-4)


def test_a_lost_worker_ends_the_others_with_a_sentence(tmp_path, monkeypatch):
    options = {"steps": 100000, "seconds_per_loop": 0.05, "save": 100000}
    processes = start_workers(tmp_path, options, monkeypatch)
    _let_them_begin(tmp_path, processes)
    processes[1].kill()
    assert wait(processes) == [75, -signal.SIGKILL]
    assert "another worker is lost or gave up (" in log(tmp_path / "worker0").splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "was expected, found '{'"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "was expected, found"),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
            "task worker 2, but the cluster has 2 of them",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "evaluator", "index": 0}}',
            "a task of type 'evaluator' has nothing to do here",
        ),
    ],
)
def test_wrong_tf_config(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(bert_tf.UserError, match="TF_CONFIG: .*" + message):
        training.make_strategy()


def test_tf_config_of_one(monkeypatch, caplog):
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}, "task": task}))
    assert tf_config() == 1
    with pytest.raises(bert_tf.UserError, match="wants the environment variable TF_CONFIG"):
        training.make_strategy(distribution_strategy="multi_worker")
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": task})
    )
    training.make_strategy(distribution_strategy="one_device")
    assert "but with --distribution_strategy=one_device each trains alone" in caplog.text
