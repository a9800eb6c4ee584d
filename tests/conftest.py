"""What the tests share: where the release's own outputs and the real data lie, if they are here."""

import contextlib
import os
import pathlib
import re

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_configure():
    """Makes the processor look like four devices, before anything has asked for it."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    four = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(cpu, four)


@pytest.fixture(scope="session")
def shared():
    """The folder that holds `golden/` and `data/`; the test is skipped where there is none.

    It is the environment variable BERT_TF_SHARED, else `shared` beside the repository.
    """
    folder = pathlib.Path(os.environ.get("BERT_TF_SHARED") or ROOT.parent / "shared")
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden files in {folder}: set BERT_TF_SHARED to the folder that has them")
    return folder


@pytest.fixture(scope="session")
def root():
    """The repository's root, where the scripts are."""
    return ROOT


@pytest.fixture
def heard(root, monkeypatch, caplog):
    """Function from names of scripts to one that runs one of them here and returns what it said."""
    import scripts_alone  # Not before the environment above is set.

    monkeypatch.syspath_prepend(str(root))
    caplog.set_level("INFO", "bert_tf")
    with contextlib.ExitStack() as stack:

        def load(*names):
            run_script = stack.enter_context(scripts_alone.imported(*names))

            def run(script, *flags):
                caplog.clear()
                run_script(script, *flags)
                return re.sub(r"`(\w+)(=[^`]*)?`", r"--\1\2", caplog.text)

            return run

        yield load
