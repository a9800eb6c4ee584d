"""Commands print bert_tf's lines to standard error, without TensorFlow's startup messages."""

import os
import subprocess
import sys

import pytest

from bert_tf.cli import tensorflow_start
from tests.cli import good_inputs

# Marks the lines of bert_tf, and runs a script or the module bert_tf.
PROGRAM = """
import runpy, sys
from bert_tf import console
printable = console.printable
console.printable = lambda text: "bert_tf: " + printable(text).replace("\\n", "\\nbert_tf: ")
del sys.argv[0]
if sys.argv[0] == "bert-tf":
    runpy.run_module("bert_tf", run_name="__main__")
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def run_alone(root):
    """A function that runs a command in its own process and folder and returns standard error."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    del environment["TF_CPP_MIN_LOG_LEVEL"]  # set in conftest.py

    def run(script, folder, arguments):
        words = script.split() if " " in script else [str(root / f"{script}.py")]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, run_alone):
    return good_inputs.Inputs(tmp_path_factory.mktemp("inputs"), run_alone)


# The default suite runs one command that trains, because `cli.flags.run` starts TensorFlow in all.
SLOW = [
    pytest.param(script, 0, marks=pytest.mark.slow)
    for script in (
        "bert-tf convert",
        *sorted(good_inputs.COMMANDS.keys() - good_inputs.QUICK_COMMANDS),
    )
    if script != "run_sentence_encoder"
]


@pytest.mark.parametrize(("script", "number"), [("run_sentence_encoder", 0), *SLOW])
def test_only_own_lines(script, number, inputs, run_alone, tmp_path):
    command_line = good_inputs.COMMANDS[script][number]
    inputs.copy(command_line, tmp_path)
    check_lines(run_alone(script, tmp_path, command_line.split()))


@pytest.mark.slow
def test_only_own_lines_where_paths_are_remote(inputs, run_alone, tmp_path):
    """Remote paths make the script and its worker processes import TensorFlow."""
    command_line = good_inputs.COMMANDS["create_pretraining_data"][1]
    inputs.copy(command_line, tmp_path)
    for path in ("text/", "out/"):
        command_line = command_line.replace(f"={path}", f"=file://{tmp_path}/{path}")
    arguments = [*command_line.split(), "--num_processes=2", f"--work_dir={tmp_path}/work"]
    check_lines(run_alone("create_pretraining_data", tmp_path, arguments))
    assert (tmp_path / "out" / "x-00001-of-00002").exists()


@pytest.mark.parametrize(
    ("line", "is_noise"),
    [
        ("I0000 00:00:1.1 7 port.cc:153] oneDNN custom operations are on.", True),
        ("E0000 00:00:1.1 7 cuda_platform.cc:52] failed call to cuInit: INTERNAL: 303", True),
        ("2026-11-25 01:15:53.1: E x/cuda_platform.cc:51] failed call to cuInit: INTERNAL", True),
        ("W0000 00:00:1.1 7 gpu_device.cc:2430] TensorFlow was not built with CUDA kernels", False),
        ("E0000 00:00:1.1 7 cuda_dnn.cc:535] Loaded runtime CuDNN library: 9.1", False),
        ("F0000 00:00:1.1 7 cpu_feature_guard.cc:38] no AVX", False),
        ("Traceback (most recent call last):", False),
    ],
)
def test_other_lines_of_tensorflow_are_shown(line, is_noise):
    assert bool(tensorflow_start._NOISE.match(line.encode())) == is_noise


@pytest.mark.parametrize(
    ("devices", "visible", "is_expected"),
    [([], None, True), ([], "0", True), ([], "-1", False), (["GPU:0"], None, False)],
)
def test_a_gpu_that_tensorflow_cannot_use(
    monkeypatch, caplog, tmp_path, devices, visible, is_expected
):
    """bert_tf reports the GPU instead of TensorFlow's messages."""
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(tensorflow_start, "_GPUS", str(tmp_path / "nvidia[0-9]*"))
    tensorflow_start.warn_of_unused_gpu()
    assert not caplog.text  # a machine without a GPU
    (tmp_path / "nvidia0").touch()
    tensorflow_start.warn_of_unused_gpu()
    assert ("TensorFlow cannot use the GPU of this machine" in caplog.text) == is_expected


def check_lines(text):
    lines = text.splitlines()
    assert lines and not [line for line in lines if not line.startswith("bert_tf: ")]
