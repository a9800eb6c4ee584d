"""The engines of TensorFlow and JAX make the same steps and predictions, on any number of devices.

As a script, it makes them on the current backend, with the weights of a folder, and writes results
to another folder: `python test_engines.py WEIGHTS FOLDER NAME...`.
"""

import importlib.util
import json
import os
import sys
import types

import keras
import numpy as np
import pytest

from bert_tf import configs, optimization
from bert_tf.data import input_pipeline
from bert_tf.training import checkpointing
from bert_tf.training.objective import concatenate
from tests.common import QUICK_RUN, read_results, run_python, write_model
from tests.training.test_fit_equals_loop import CASES, batches, make_objective
from tests.training.test_loop import OPTIONS, kill_after_a_checkpoint
from tests.training.training_helpers import (
    assert_same,
    log,
    make_engine,
    run,
    start,
    start_python,
    tensors,
    worker_environments,
)

# Name -> the case of test_fit_equals_loop.py, and the options of `train`.
RUNS = {
    **{case: (case, {}) for case in CASES},
    "accumulated": ("pretraining", {"gradient_accumulation_steps": 2}),
    "recomputed": ("pretraining", {"gradient_accumulation_steps": 2, "recompute": True}),
    "frozen": ("classification", {"num_frozen_layers": 1}),
    "layer decay": ("span", {"layer_decay": 0.5}),
    "lamb": ("pretraining", {"optimizer": "lamb", "gradient_accumulation_steps": 2}),
}
QUICK = ("tags", "lamb")
# The batches divide over 1, 2, 3 and 4 devices, each with two parts.
NUM_STEPS, SIZE = 10, 24


def train(case, start=None, optimizer="bert_adam", layer_decay=1.0, **options):
    """Return the results of ten steps, all variables by name, and predictions for seven rows."""
    engine, config, results = make_engine(), configs.TrainConfig(**options), {}
    with engine.scope():
        objective = make_objective(case, start)
        if config.num_frozen_layers:
            objective.model.freeze(config.num_frozen_layers)
        rate = optimization.LinearWarmupDecay(1e-3, NUM_STEPS, 2)
        optimizer = optimization.OPTIMIZERS[optimizer](rate, layer_decay=layer_decay)
    objective.model.skip_padding = False
    engine.prepare(objective, optimizer, config, NUM_STEPS)
    rows = batches(case, NUM_STEPS * SIZE).unbatch()
    steps = engine.batches(share(rows.batch(SIZE, drop_remainder=True), SIZE), 0)
    for count in (1, 2, 7):
        sums, first_bad = engine.run_steps(steps, count)
        assert first_bad == -1
        results |= {f"{name} {count}": value / count for name, value in sums.items()}
    results |= {name: x.numpy() for name, x in engine.state.items() if "seed_" not in name}

    def label(number, row):  # what only predictions read
        return {"unique_ids": row["input_mask"][..., 0], **row, "is_real_example": number < 7}

    # Workers get full batches.
    rows = rows.take(8 if engine.is_multi_worker else 7).enumerate().map(label)
    data = share(rows.batch(4), 4)
    predictions = concatenate(engine.predict(engine.predict_step(objective), data))
    is_real = predictions.pop("is_real_example").astype(bool)
    results |= {f"predicted {name}": x[is_real] for name, x in predictions.items()}
    return results


def share(batches, size):
    """Return data for an engine: whole batches in one process, rows of them in several."""

    def make(*arguments):  # the last one is the share of a process
        context = arguments[-1]
        is_whole = context is None or context.num_input_pipelines == 1
        return input_pipeline.shard_batches(batches, size, None if is_whole else context)

    return types.SimpleNamespace(batches=make)


needs_jax = pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")


@needs_jax
@pytest.mark.parametrize(
    ("names", "num_devices", "num_workers"),
    [
        (QUICK, 2, 2),
        *(pytest.param((*RUNS,), n, 1, marks=pytest.mark.slow) for n in (1, 2, 3, 4)),
        *(pytest.param((*RUNS,), n, 4 // n, marks=pytest.mark.slow) for n in (1, 2)),
    ],
)
def test_both_engines_make_the_same_steps(tmp_path, monkeypatch, names, num_devices, num_workers):
    for case in {RUNS[name][0] for name in names}:
        make_objective(case).model.save_weights(tmp_path / f"{case}.weights.h5")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    devices = f"--xla_force_host_platform_device_count={num_devices}"
    monkeypatch.setenv("XLA_FLAGS", devices)
    processes, folders = [], [tmp_path / f"{i}" for i in range(num_workers)]
    for folder, environment in zip(folders, worker_environments(num_workers), strict=True):
        monkeypatch.setenv("TF_CONFIG", environment)
        processes.append(start_python(folder, __file__, tmp_path, folder, *names))
    monkeypatch.delenv("TF_CONFIG")
    for name in names:
        case, options = RUNS[name]
        expected = train(case, **options)
        for process, folder in zip(processes, folders, strict=True):
            assert process.wait(1000) == 0, log(folder)
            found = np.load(folder / f"{name}.npz")
            assert {*found} == expected.keys()
            for key, value in expected.items():
                np.testing.assert_allclose(found[key], value, rtol=2e-6, atol=2e-5, err_msg=key)
        start = make_objective(case).model.trainable_variables
        assert max(x.numpy().size for x in start) >= 2**14


@pytest.mark.slow
@needs_jax
def test_killed_run_on_jax_is_resumed_exactly(record_paths, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    options = {**OPTIONS, "paths": record_paths, "eval_steps": 10, "total": 30}
    kill_after_a_checkpoint(killed, {**options, "steps": 100000})
    options["steps"] = max(30, int(tensors(killed)["global_step"]) + 3)
    for folder in (killed, whole):
        assert start(folder, options).wait(600) == 0, log(folder)
    assert f"weights: resumed from {killed}/model.ckpt-" in log(killed)
    assert_same(killed, whole)


@pytest.mark.slow
@needs_jax
def test_run_is_resumed_on_the_other_backend(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 9), (parts, 3)):
        keras.utils.set_random_seed(7)
        run(folder, steps, total=9)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert start(parts, {"steps": 6, "total": 9}).wait(600) == 0, log(parts)
    run(parts, 9)
    found, expected = tensors(parts), tensors(whole)
    for name in (x for x in expected if not x.startswith("bert_tf/")):
        np.testing.assert_allclose(found[name], expected[name], atol=2e-5, err_msg=name)
        assert found[name].dtype == expected[name].dtype


@pytest.mark.slow
@needs_jax
def test_script_on_jax(root, tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    rows = "".join(f"{'a b' if i % 2 else 'c d'}\t{i % 2}\n" for i in range(8))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    run_python(
        root / "run_classifier.py", *write_model(tmp_path), "--task_name=tsv",
        f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/out", "--do_train", "--do_eval",
        "--num_train_epochs=1", *QUICK_RUN[:2], KERAS_BACKEND="jax", XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert read_results(tmp_path / "out" / "eval_results.txt")["global_step"] == "2"
    assert json.loads((tmp_path / "out" / "run.json").read_text())["versions"]["backend"] == "jax"
    assert any((tmp_path / "bert_tf" / "jax").glob("jit_step-*"))


def test_dropout_of_another_backend_starts_over(tmp_path, caplog):
    saved = {"bert_tf/seed_0": keras.Variable([1, 2], dtype="int64")}
    checkpointing.save(tmp_path, {**saved, "global_step": keras.Variable(4)})
    seed = keras.Variable([3, 4], dtype="uint32")
    checkpointing.restore(f"{tmp_path}/model.ckpt-4", {"bert_tf/seed_0": seed})
    assert "ckpt-4 is from another backend of Keras: dropout starts over" in caplog.text
    assert [*seed.numpy()] == [3, 4]


ON_JAX = """
import jax
from bert_tf import UserError, configs, training
for options in {"distribution_strategy": "mirrored"}, {"use_tpu": True, "tpu_name": "mine"}:
    try:
        training.Engine.make(configs.DeviceConfig(**options))
    except UserError as error:
        print(error)
engine = training.Engine.make()
counts = 19_999, 20_000, None
for name in "cpu", "tpu":
    jax.default_backend = lambda: name
    print("lengths", *(engine.length_multiple(128, True, count) for count in counts))
for options in {"xla": False}, {"dtype": "float16"}:
    try:
        engine.check(configs.TrainConfig(**options))
    except UserError as error:
        print(error)
"""


@needs_jax
def test_options_on_jax():
    found = run_python("-c", ON_JAX, KERAS_BACKEND="jax", PYTHONPATH=os.pathsep.join(sys.path))
    assert "lengths 32 32 32\nlengths None 32 32" in found
    named = [line.split("`")[1] for line in found.splitlines() if "`" in line]
    assert named == ["distribution_strategy=mirrored", "use_tpu", "xla=False", "dtype=float16"]


if __name__ == "__main__":
    start_folder, folder, *names = sys.argv[1:]
    for name in names:
        case, options = RUNS[name]
        found = train(case, f"{start_folder}/{case}.weights.h5", **options)
        np.savez(f"{folder}/{name}.npz", **found)
