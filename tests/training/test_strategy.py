"""Strategies, and training with two worker processes."""

import concurrent.futures
import json
import os
import signal
import time

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import training
from bert_tf.configs import DeviceConfig
from bert_tf.training import cluster
from bert_tf.training.pretraining import PretrainingObjective
from tests.training.training_helpers import (
    SomeBatches,
    assert_same,
    config,
    log,
    mirrored,
    one_device,
    run,
    start,
    tensors,
    wait_for_first_step,
    worker_environments,
)


def test_device_arguments(caplog):
    with pytest.raises(bert_tf.UserError, match="`use_tpu` requires `tpu_name`"):
        training.make_strategy(DeviceConfig(use_tpu=True))
    with pytest.raises(bert_tf.UserError, match=r"`distribution_strategy=mirrored`.*`use_tpu`"):
        training.make_strategy(DeviceConfig(True, "x", distribution_strategy="mirrored"))
    training.make_strategy(DeviceConfig(tpu_name="mine", distribution_strategy="one_device"))
    assert "`tpu_name=mine` has no effect without `use_tpu`" in caplog.text


def tf_config(cluster, kind="worker", index=0):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


WORKERS = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "a different structure"),
        (tf_config([]), "a different structure"),
        (json.dumps({"cluster": WORKERS}), "a task that is not in the cluster"),
        (tf_config(WORKERS, index=2), "a task that is not in the cluster"),
        (tf_config({"worker": ["a:1"]}, index=-1), "a task that is not in the cluster"),
        (tf_config({"worker": ["a:1"]}, "ps"), "a task that is not in the cluster"),
        (tf_config({**WORKERS, "evaluator": ["c:1"]}, "evaluator"), "neither.*workers also eval"),
        (tf_config({"worker": "a:1"}), "an address that is not host:port"),
        (tf_config({"worker": ["a:1", ""]}), "an address that is not host:port"),
        (tf_config({"chief": ["a:1"], **WORKERS}), "an address twice"),
        (tf_config({"chief": ["a:1", "b:1"]}, "chief"), "several chiefs"),
    ],
)
def test_malformed_tf_config_is_an_error(text, found, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(bert_tf.UserError, match=f"TF_CONFIG: found .*{found}"):
        training.make_strategy()


def test_tf_config_of_one_worker(monkeypatch, caplog):
    for text in ("", "{}", '{"cluster": {}, "environment": "cloud"}', '{"task": {"index": 0}}'):
        monkeypatch.setenv("TF_CONFIG", text)
        assert cluster.read_tf_config() == ((), None)
    monkeypatch.setenv("TF_CONFIG", tf_config({"chief": ["[::1]:1"]}, "chief", "0"))
    assert cluster.read_tf_config() == (("chief [::1]:1",), "chief [::1]:1")
    with pytest.raises(bert_tf.UserError, match=r"strategy=multi_worker.* TF_CONFIG"):
        training.make_strategy(DeviceConfig(distribution_strategy="multi_worker"))
    monkeypatch.setenv("TF_CONFIG", tf_config(WORKERS))
    training.make_strategy(DeviceConfig(distribution_strategy="one_device"))
    assert "TF_CONFIG has 2 workers" in caplog.text
    assert "`distribution_strategy=one_device`" in caplog.text


def test_waiting_for_workers(monkeypatch, caplog):
    """Each worker reports the missing ones, and all return when the last one is started."""
    caplog.set_level("INFO", "bert_tf")
    monkeypatch.setenv("TF_CONFIG", worker_environments(3)[0])
    names, _ = cluster.read_tf_config()
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 0.0)
    with pytest.raises(bert_tf.UserError, match=rf"connect .*for {names[1]}, {names[2]}\)"):
        training.make_strategy()
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 30.0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        calls = [pool.submit(cluster.wait_for_workers, names, name) for name in names[:2]]
        while caplog.messages.count(f"waiting for {names[2]}") < 2 and not calls[0].done():
            time.sleep(0.01)
        calls.append(pool.submit(cluster.wait_for_workers, names, names[2]))
    assert [call.result() for call in calls] == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_waiting_worker(tmp_path, monkeypatch, number):
    monkeypatch.setenv("TF_CONFIG", worker_environments()[1])
    process = start(tmp_path, {"steps": 20})
    while "waiting for worker localhost:" not in log(tmp_path) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(20) == -number


def test_lost_worker_raises_stopped():
    engine = training.TensorFlowEngine(one_device())
    error = tf.errors.UnavailableError(None, None, "connection reset")
    with pytest.raises(tf.errors.UnavailableError), engine.watched():
        raise error
    engine.is_multi_worker = True
    with pytest.raises(bert_tf.errors.Stopped, match="connection reset") as stopped:  # noqa: SIM117
        with engine.watched():
            raise error
    assert stopped.value.status == 75


@pytest.fixture(params=["tensorflow", "jax"])
def backend(request, monkeypatch):
    """The backend of the processes of `start_workers`."""
    pytest.importorskip(request.param)
    monkeypatch.setenv("KERAS_BACKEND", request.param)
    return request.param


def start_workers(folder, options, monkeypatch, count=2):
    """Start workers with a common output folder and separate logs."""
    processes = []
    for index, environment in enumerate(worker_environments(count)):
        monkeypatch.setenv("TF_CONFIG", environment)
        processes.append(start(folder / "run", options, folder / f"worker{index}"))
    monkeypatch.delenv("TF_CONFIG")
    return processes


def wait(processes, seconds=200):
    return [process.wait(seconds) for process in processes]


@pytest.mark.slow
def test_two_workers_make_the_same_steps(plain_run, tmp_path, monkeypatch):
    """The workers have different numbers of masks."""
    processes = start_workers(tmp_path, {"steps": 20}, monkeypatch)
    loop = training.Loop(
        lambda: PretrainingObjective(config()),
        training.TensorFlowEngine(one_device()),
        str(plain_run),
    )
    expected = loop.evaluate(SomeBatches())
    assert wait(processes) == [0, 0]
    assert_same(plain_run, tmp_path / "run", atol=1e-5)
    for index in range(2):  # each worker has the results of all examples
        results = json.loads(log(tmp_path / f"worker{index}").splitlines()[-1])
        assert results == pytest.approx(expected, abs=1e-5)
    names = os.listdir(tmp_path / "run")
    assert len([name for name in names if "tfevents" in name]) == 1, "only the chief writes them"


@pytest.mark.slow
def test_signal_to_one_worker_stops_all_at_the_same_step(tmp_path, monkeypatch, backend):
    options = {"steps": 2000, "total": 2000, "dropout": 0.1, "seconds_per_loop": 0.05}
    processes = start_workers(tmp_path, options, monkeypatch)
    wait_for_first_step(tmp_path, processes)
    processes[1].send_signal(signal.SIGTERM)
    assert wait(processes) == [75, 75]
    assert "stopped by another worker's signal at step" in log(tmp_path / "worker0")
    step = int(tensors(tmp_path / "run")["global_step"])
    assert 0 < step < 2000
    options["steps"] = step + 3
    processes = start_workers(tmp_path, options, monkeypatch)
    assert wait(processes) == [0, 0]
    assert f"training: step {step} to {step + 3}" in log(tmp_path / "worker1")
    # Equal to an uninterrupted run in one process, up to the order of sums. On TensorFlow, dropout
    # depends on the number of devices.
    if backend == "tensorflow":
        keras.utils.set_random_seed(7)
        run(tmp_path / "whole", step + 3, mirrored(2), dropout=0.1, total=2000)
    else:
        assert wait([start(tmp_path / "whole", options)]) == [0]
    assert_same(tmp_path / "whole", tmp_path / "run", atol=1e-4)
    results = [log(tmp_path / f"worker{index}").splitlines()[-1] for index in range(2)]
    assert results[0] == results[1]
    assert len([*(tmp_path / "run").glob("*tfevents*")]) == 2, "only the chief writes them"


@pytest.mark.slow
def test_lost_worker_stops_the_others(tmp_path, monkeypatch, backend):
    options = {"steps": 100000, "seconds_per_loop": 0.05, "save": 100000}
    processes = start_workers(tmp_path, options, monkeypatch, 4 if backend == "jax" else 2)
    wait_for_first_step(tmp_path, processes)
    processes[-1].kill()
    assert wait(processes, 120) == [75] * (len(processes) - 1) + [-signal.SIGKILL]
    assert "another worker was lost (" in log(tmp_path / "worker0").splitlines()[-1]
