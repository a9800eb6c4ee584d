"""The training loop: runs that are killed or stopped at any time resume exactly."""

import os
import random
import shutil
import signal
import time

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import input_pipeline, records
from bert_tf.io import files
from bert_tf.training import checkpointing
from bert_tf.training.loop import PreemptionHandler
from tests.training import training_helpers as helpers

# Saves often and returns to the host after each step, so signals can arrive in any state.
OPTIONS = {"steps": 150, "save": 3, "dropout": 0.1, "seconds_per_loop": 0.0, "eval_steps": 50,
           "best_metric": "loss"}  # fmt: skip


@pytest.mark.slow
def test_length_of_the_host_loop_has_no_effect(plain_run, tmp_path, monkeypatch):
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_LOOP", 0.0)
    helpers.run(tmp_path, 20)
    helpers.assert_same(plain_run, tmp_path)


def test_nan_stops_the_run(tmp_path):
    loop = helpers.make_loop(tmp_path)
    message = r"is (nan|inf) at step (\d+); there is no checkpoint yet; .*`learning_rate`"
    with pytest.raises(bert_tf.UserError, match=message):
        loop.train(helpers.Batches(), helpers.make_adam(loop, 1e30), 50)
    # The weights are not finite, and the next training starts at step 0.
    with pytest.raises(bert_tf.UserError, match=r"is (nan|inf) at step 1; "):
        loop.train(helpers.Batches(), helpers.make_adam(loop), 1)


def test_folder_of_a_running_process_is_an_error(plain_run, tmp_path, monkeypatch):
    shutil.copytree(plain_run, tmp_path, dirs_exist_ok=True)
    temporary = tmp_path / "model.ckpt-9.tmp-123.index"
    incomplete = tmp_path / "model.ckpt-77.data-00000-of-00001"  # the index was removed first
    with checkpointing.exclusive_directory(str(tmp_path)):
        temporary.write_text("of a run that was killed")
        incomplete.write_text("of a run that was killed")
        monkeypatch.setattr(checkpointing, "_LOCKED", set())  # act as a different process
        with pytest.raises(bert_tf.UserError, match=rf"`output_dir`.*PID {os.getpid()}\)"):
            helpers.run(tmp_path, 20)
        monkeypatch.undo()
    before = {path.name for path in tmp_path.iterdir()} - {temporary.name, incomplete.name}
    helpers.run(tmp_path, 20)  # nothing to do
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("is_training", [True, False])
def test_files_in_flight_stay_without_locks(monkeypatch, is_training):
    """In an object store another process may be writing; training removes only old files."""
    folder, now = f"ram://run-{is_training}", time.time_ns()
    names = ["m.ckpt-9.tmp-123.index", "model.ckpt-77.data-00000-of-00001", "model.ckpt-5.index"]
    for age in ("new", "old"):
        tf.io.gfile.makedirs(f"{folder}/{age}/best")
        for name in (*names, f"best/{names[0]}"):
            with tf.io.gfile.GFile(f"{folder}/{age}/{name}", "w") as writer:
                writer.write("x")

    def size_and_time(path):
        return 0, now - 10**9 * (2 * 24 * 3600 if "/old/" in path else 60)

    monkeypatch.setattr(files, "size_and_time", size_and_time)
    for age in ("new", "old"):
        with checkpointing.exclusive_directory(f"{folder}/{age}", is_training=is_training):
            left = tf.io.gfile.glob([f"{folder}/{age}/{x}*m*.ckpt*" for x in ("", "best/")])
        assert len(left) == (1 if age == "old" and is_training else 4)


def test_signals_are_requests_until_the_second_ctrl_c():
    # `os.kill` may be noticed later, such as in a callback of the garbage collector.
    handlers = [signal.getsignal(number) for number in PreemptionHandler.signals]
    with PreemptionHandler() as preemption:
        assert preemption.signal is None
        signal.raise_signal(signal.SIGTERM)
        assert preemption.signal == signal.SIGTERM
        with pytest.raises(bert_tf.errors.Stopped, match="SIGTERM at step 3") as stopped:
            preemption.stop(3)
        assert stopped.value.status == 75
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(bert_tf.errors.Stopped, match="SIGINT at step 3") as stopped:
            preemption.stop(3)
        assert stopped.value.status == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert handlers == [signal.getsignal(number) for number in PreemptionHandler.signals]


def kill_after_a_checkpoint(folder, options):
    """Start a run that does not end, and kill it at a random time."""
    process = helpers.start(folder, options)
    while process.poll() is None and not any(folder.glob("model.ckpt-*.index")):
        time.sleep(0.01)
    time.sleep(random.uniform(0.0, 0.4))
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


def test_killed_run_is_resumed_exactly(record_paths, tmp_path, monkeypatch, caplog):
    """Resuming the run of a killed process gives the weights of an uninterrupted run."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    short = {**OPTIONS, "steps": 30, "eval_steps": 10, "total": 30}
    options = {**short, "paths": record_paths, "steps": 100000}
    kill_after_a_checkpoint(killed, options)
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_LOOP", 0.0)
    caplog.set_level("INFO", "bert_tf")
    options = {name: x for name, x in short.items() if name != "seconds_per_loop"}
    options["steps"] = max(30, int(helpers.tensors(killed)["global_step"]) + 3)
    for folder in (killed, whole):
        keras.utils.set_random_seed(7)
        lengths = {"S": 8, "P": 1}
        data = input_pipeline.TrainingInput(record_paths, records.PRETRAINING, lengths, 4, 3)
        helpers.run(folder, data=data, **options)
    assert f"weights: resumed from {killed}/model.ckpt-" in caplog.text
    helpers.assert_same(whole, killed)
    helpers.assert_same(whole / "best", killed / "best")
