"""Commands print bert_tf's lines to standard error, without TensorFlow's startup messages."""

import re

import pytest

from bert_tf.cli import tensorflow_start
from tests.cli import good_inputs
from tests.common import python_process


@pytest.fixture(scope="module")
def run_alone(root):
    """A function that runs a command in its own process and folder and returns standard error."""

    def run(script, folder, arguments):
        words = ["-m", "bert_tf", *script.split()[1:]] if " " in script else [root / f"{script}.py"]
        done = python_process(*words, *arguments, cwd=folder, PYTHONPATH=str(root))
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, run_alone):
    return good_inputs.Inputs(tmp_path_factory.mktemp("inputs"), run_alone)


# Lines of TensorFlow and absl, and Python's warnings.
FOREIGN = re.compile(r"^WARNING|\.(cc|h|py):\d+", re.M)

# `cli.flags.run` starts TensorFlow in all commands; these import it on different paths.
SCRIPTS = [
    "bert-tf embed",
    *(pytest.param(x, marks=pytest.mark.slow)
      for x in ("run_sentence_encoder", "bert-tf predict", "create_pretraining_data")),
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_only_own_lines(script, inputs, run_alone, tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")  # set in conftest.py
    command_line = good_inputs.COMMANDS[script][0]
    inputs.copy(command_line, tmp_path)
    if script == "create_pretraining_data":  # remote paths make it import TensorFlow
        command_line = command_line.replace("=text/", f"=file://{tmp_path}/text/")
    printed = run_alone(script, tmp_path, command_line.split())
    assert printed and not FOREIGN.search(printed), printed


@pytest.mark.parametrize(
    ("devices", "visible", "is_expected"),
    [([], None, True), ([], "0", True), ([], "-1", False), (["GPU:0"], None, False)],
)
def test_a_gpu_that_cannot_be_used(monkeypatch, caplog, tmp_path, devices, visible, is_expected):
    """bert_tf reports the GPU instead of TensorFlow's messages."""
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(tensorflow_start, "_GPUS", str(tmp_path / "nvidia[0-9]*"))
    tensorflow_start.import_tensorflow()
    assert not caplog.text  # a machine without a GPU
    (tmp_path / "nvidia0").touch()
    tensorflow_start.import_tensorflow()
    assert ("TensorFlow cannot use the GPU of this machine" in caplog.text) == is_expected
