"""The engines of TensorFlow and JAX make the same steps and predictions, on any number of devices.

As a script, it makes them on the current backend: `python test_engines.py FOLDER NAME...`.
"""

import importlib.util
import os
import sys
import types

import keras
import numpy as np
import pytest

from bert_tf import configs, optimization
from bert_tf.training import checkpointing
from tests.common import run_python
from tests.training.test_fit_equals_loop import CASES, batches, make_objective
from tests.training.test_loop import OPTIONS, kill_after_a_checkpoint
from tests.training.training_helpers import assert_same, log, make_engine, run, start, tensors

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
NUM_STEPS, SIZE = 10, 8


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
    data = types.SimpleNamespace(batches=lambda *_: rows.batch(SIZE, drop_remainder=True))
    steps = engine.batches(data, 0)
    for count in (1, 2, 7):
        sums, first_bad = engine.run_steps(steps, count)
        assert first_bad == -1
        results |= {f"{name} {count}": value / count for name, value in sums.items()}
    results |= {name: x.numpy() for name, x in engine.state().items() if "seed_" not in name}
    # Labels that only predictions read.
    others = "unique_ids", "is_real_example"
    uneven = rows.take(7).batch(4)
    uneven = uneven.map(lambda x: {**dict.fromkeys(others, x["input_mask"][..., 0]), **x})
    data = types.SimpleNamespace(batches=lambda *_: uneven)
    predictions = [*engine.predict(engine.predict_step(objective), data)]
    for name in predictions[0]:
        results[f"predicted {name}"] = np.concatenate([x[name] for x in predictions])
    return results


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
@pytest.mark.parametrize(
    ("names", "num_devices"),
    [(QUICK, 4), *(pytest.param((*RUNS,), n, marks=pytest.mark.slow) for n in (1, 2, 4))],
)
def test_both_engines_make_the_same_steps(tmp_path, names, num_devices):
    for case in {RUNS[name][0] for name in names}:
        make_objective(case).model.save_weights(tmp_path / f"{case}.weights.h5")
    run_python(
        __file__, tmp_path, *names, KERAS_BACKEND="jax", PYTHONPATH=os.pathsep.join(sys.path),
        XLA_FLAGS=f"--xla_force_host_platform_device_count={num_devices}",
    )  # fmt: skip
    for name in names:
        case, options = RUNS[name]
        found, expected = np.load(tmp_path / f"{name}.npz"), train(case, **options)
        assert {*found} == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=2e-6, atol=2e-5, err_msg=key)
        start = make_objective(case).model.trainable_variables
        assert max(x.numpy().size for x in start) >= 2**14


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
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
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
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


def test_dropout_of_another_backend_starts_over(tmp_path, caplog):
    saved = {"bert_tf/seed_0": keras.Variable([1, 2], dtype="int64")}
    checkpointing.save(tmp_path, {**saved, "global_step": keras.Variable(4)})
    seed = keras.Variable([3, 4], dtype="uint32")
    checkpointing.restore(f"{tmp_path}/model.ckpt-4", {"bert_tf/seed_0": seed})
    assert "ckpt-4 is from another backend of Keras: dropout starts over" in caplog.text
    assert [*seed.numpy()] == [3, 4]


REFUSED = """
from bert_tf import UserError, configs, training
engine = training.Engine.make()
for options in {"xla": False}, {"dtype": "float16"}:
    try:
        engine.check(configs.TrainConfig(**options))
    except UserError as error:
        print(error)
for options in {"distribution_strategy": "mirrored"}, {"use_tpu": True, "tpu_name": "mine"}:
    try:
        training.Engine.make(configs.DeviceConfig(**options))
    except UserError as error:
        print(error)
"""


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_what_jax_cannot_do_is_refused():
    found = run_python("-c", REFUSED, KERAS_BACKEND="jax", PYTHONPATH=os.pathsep.join(sys.path))
    named = [line.split("`")[1] for line in found.splitlines()]
    assert named == ["xla=False", "dtype=float16", "distribution_strategy=mirrored", "use_tpu"]


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        case, options = RUNS[name]
        np.savez(f"{folder}/{name}.npz", **train(case, f"{folder}/{case}.weights.h5", **options))
