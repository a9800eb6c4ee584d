"""`tools/check_compile.py`: compilers of devices that are not there."""

import json
from importlib import metadata

import pytest

from tests.common import TINY, run_python
from tools import compilation


@pytest.mark.parametrize(
    ("memory", "first", "most", "found", "compiled"),
    [
        (lambda x: 2 + x, 4, 66, 64, [16, 64]),  # linear
        (lambda x: 2 + x, 64, 34, 32, [32, 16]),  # the first does not fit
        (lambda x: 2 + x + x * x / 100, 4, 66, 40, [16, 48, 40]),  # the third does not fit
        (lambda x: 2 + 0.1 * x, 64, 16, 136, [256, 32, 136]),  # the second does not fit
        (lambda x: 100, 4, 66, 0, [2, 1]),
    ],
)
def test_the_largest_batch(memory, first, most, found, compiled):
    sizes = []

    def compile(size):
        sizes.append(size)
        return {"memory": memory(size)} if memory(size) <= most or size < 60 else None

    best, best_plan = compilation.largest_batch(compile, first, compile(first), most, 1)
    assert (best, sizes[1:]) == (found, compiled)
    assert (best_plan or {"memory": 100})["memory"] == memory(best)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "package", "backend", "task"),
    [
        ("v5e:2x2", "libtpu", "jax", "pretraining"),
        ("v5e:2x2", "libtpu", "tensorflow", "classification"),
        ("H100", "jax-cuda12-pjrt", "jax", "classification"),
        ("H100", "jax-cuda12-pjrt", "tensorflow", "pretraining"),
    ],
)
def test_tiny_models_compile(tmp_path, device, package, backend, task):
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    (tmp_path / "bert_config.json").write_text(TINY.to_json_string())
    run_python(
        "-m", "tools.check_compile", f"--device={device}", f"--task={task}",
        f"--bert_config_file={tmp_path}/bert_config.json", "--max_seq_length=12",
        "--max_predictions_per_seq=2",
        "--train_batch_size=8", "--dtype=bfloat16", "--nolargest_batch",
        f"--output_file={tmp_path}/report.json", KERAS_BACKEND=backend, BERT_TF_CACHE=str(tmp_path),
    )  # fmt: skip
    found = json.loads((tmp_path / "report.json").read_text())["plan"]
    assert 0 < found["memory"] < 2**30
    assert found["copies"] < 2**16 and not found["host"]
    # The products of the layers are in bfloat16, all gradients are exchanged together.
    assert found["float32_dots"] <= 3 < found["dots"]
    assert found["collectives"].keys() == ({"all-reduce"} if "2x2" in device else set())
    assert found["collectives"].get("all-reduce", 0) <= 5
