"""`bert-tf check` on good and on faulty devices."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf import optimization
from bert_tf.device_check import checks
from tests.common import python_process, run_python
from tests.training.training_helpers import mirrored, one_device

DTYPES = ["float32", "bfloat16", "float16"]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dtypes"), [(1, DTYPES[:1]), (3, DTYPES)])
def test_good_devices_pass(count, dtypes):
    found = [*checks.Checks(mirrored(count) if count > 1 else one_device(), dtypes).all()]
    assert not [check for check in found if not check.passed]
    assert len(found) == 5 + 4 * len(dtypes)
    (steps,) = (check for check in found if "steps of the release" in check.name)
    assert steps.name.startswith("optimizer, 26 steps")


def failures(methods, dtypes=("float32",)):
    found = checks.Checks(one_device(), dtypes)
    return [x.name for name in methods for x in getattr(found, name)() if not x.passed]


def test_another_epsilon_is_found(monkeypatch):
    assert not failures(["optimizer_steps"])
    monkeypatch.setattr(checks, "AdamWeightDecay", lambda rate: optimization.AdamWeightDecay(
        rate, epsilon=1e-4
    ))  # fmt: skip
    assert failures(["optimizer_steps"])


def test_wrong_products_are_found(monkeypatch):
    """A device may compute in lower precision than requested."""
    warm_start = checks.checkpoints.warm_start

    def rounded(model, path):
        warm_start(model, path)
        for variable in checks.checkpoints.weights(model).values():
            variable.assign(np.float32(np.round(variable.numpy() * 2**9) / 2**9))

    monkeypatch.setattr(checks.checkpoints, "warm_start", rounded)
    assert failures(["outputs"]) == ["outputs of the release, float32"]
    assert not failures(["outputs"], ["bfloat16"])


def test_values_that_are_no_numbers_fail():
    assert not checks.Check("a", float("nan"), 1.0).passed
    assert checks.Check("a", 1.0, 1.0).passed


def test_the_command(run_script, tmp_path, monkeypatch, capsys):
    """Checks the table, the JSON file and the exit status."""
    monkeypatch.setattr(checks.Checks, "all", lambda self: [*self.optimizer_steps()])
    with pytest.raises(bert_tf.UserError, match="--dtype has no effect with --quick"):
        run_script("bert-tf check", "--quick", "--dtype=float16")
    monkeypatch.setattr(checks, "set_logical_devices", lambda count: None)
    run_script("bert-tf check", "--num_logical_devices=1", f"--output_file={tmp_path}/report.json",
               "--distribution_strategy=one_device")  # fmt: skip
    out = capsys.readouterr().out
    assert "optimizer, 26 steps of the release" in out and "all 1 checks passed" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["tensorflow"] and report["checks"][0]["passed"]

    failing = [checks.Check("a check", 2.0, 1.0, "why")]
    monkeypatch.setattr(checks.Checks, "all", lambda self: failing)
    with pytest.raises(bert_tf.UserError, match="failed checks: a check"):
        run_script("bert-tf check", "--quick", f"--output_file={tmp_path}/failed.json")
    assert "FAIL" in capsys.readouterr().out
    assert not json.loads((tmp_path / "failed.json").read_text())["checks"][0]["passed"]


def test_other_backends_are_refused(root):
    done = python_process(root / "predict.py", "--model=x", KERAS_BACKEND="jax")
    assert done.returncode == 1
    assert done.stderr == "predict.py: error: KERAS_BACKEND=jax: expected tensorflow; unset it\n"


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_on_jax(count, tmp_path):
    """Checks the model, its training steps and its export on simulated devices."""
    pytest.importorskip("jax")
    run_python(
        "-m", "bert_tf", "check", f"--output_file={tmp_path}/report.json", KERAS_BACKEND="jax",
        XLA_FLAGS=f"--xla_force_host_platform_device_count={count}",
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["devices"].startswith(f"{count} x CPU")
    assert len(report["checks"]) == 7 and all(x["passed"] for x in report["checks"])
