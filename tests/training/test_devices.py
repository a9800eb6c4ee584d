"""What devices are found, on machines that have others than this one."""

import subprocess

import pytest
import tensorflow as tf

import bert_tf
from bert_tf.training import Devices, find_devices
from bert_tf.training import strategy as devices


@pytest.fixture
def chips(tmp_path, monkeypatch):
    """Two chips where a driver shows them."""
    for name in ("accel0", "accel1"):
        (tmp_path / name).touch()
    monkeypatch.setattr(devices, "_TPU_CHIPS", (f"{tmp_path}/accel[0-9]*",))


def test_processor(monkeypatch):
    monkeypatch.setattr(devices, "_TPU_CHIPS", ())
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    found = find_devices()
    assert found == Devices("CPU", 1) and found.flags == {}


def test_gpus(monkeypatch):
    monkeypatch.setattr(devices, "_TPU_CHIPS", ())
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: {"GPU": [1, 2]}[kind])
    found = find_devices()
    assert found == Devices("GPU", 2) and found.flags == {}


def test_a_tpu_is_asked_in_a_process_of_its_own(chips, monkeypatch):
    def run(command, **options):
        return subprocess.CompletedProcess(command, 0, "said by a driver\n8\n", "noise\n")

    monkeypatch.setattr(devices.subprocess, "run", run)
    found = find_devices()
    assert found == Devices("TPU", 8)
    assert found.flags == {"use_tpu": True, "tpu_name": "local", "num_tpu_cores": 8}


def test_a_tpu_that_cannot_be_used_is_an_error(chips):
    # The process itself: here is no TPU but for the two files.
    with pytest.raises(bert_tf.UserError, match=r"TensorFlow cannot use .*no such TPU"):
        find_devices()


@pytest.mark.parametrize(("count", "least", "size"), [(1, 32, 32), (8, 32, 32), (3, 32, 33)])
def test_batches_divide(count, least, size):
    assert Devices("GPU", count).batch_size(least) == size
