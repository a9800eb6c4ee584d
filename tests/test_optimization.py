"""The optimizer against 20 recorded steps of the release's, and against its formula."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.optimization import AdamWeightDecay, linear_warmup_decay


def make(weights, **options):
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    optimizer = AdamWeightDecay(**options)
    optimizer.build(variables)
    return optimizer, variables


@pytest.mark.parametrize("case", ["adam_warmup", "adam_no_warmup"])
def test_equals_the_release(shared, case):
    golden = np.load(shared / "golden" / "optimizer" / f"{case}.npz")
    rate, total, warmup, steps = golden["hyper"]
    names = [key.removeprefix("init|") for key in golden.files if key.startswith("init|")]
    optimizer, variables = make(
        {name: golden[f"init|{name}"] for name in names},
        learning_rate=linear_warmup_decay(float(rate), int(total), int(warmup)),
    )
    for i in range(int(steps)):
        optimizer.apply({name: tf.constant(golden[f"grad{i}|{name}"]) for name in names})
        for name in names:
            np.testing.assert_allclose(
                variables[name], golden[f"weight{i}|{name}"], atol=1e-6, rtol=0
            )
    for name, slot in optimizer.slots.items():
        np.testing.assert_allclose(slot, golden[f"slot|{name}"], atol=1e-6, rtol=0)


def test_formula():
    """Three steps against the update written out, with clipping and both kinds of weights."""
    rng = np.random.default_rng(0)
    start = {"a/kernel": rng.normal(size=(3, 4)), "a/bias": rng.normal(size=4)}
    start = {name: value.astype("float32") for name, value in start.items()}
    optimizer, variables = make(start, learning_rate=lambda step: 0.1)
    expected = {name: value.astype("float64") for name, value in start.items()}
    m = dict.fromkeys(start, 0.0)
    v = dict.fromkeys(start, 0.0)
    for _ in range(3):
        gradients = {name: rng.normal(size=value.shape) for name, value in start.items()}
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        found = optimizer.apply({n: tf.constant(g, tf.float32) for n, g in gradients.items()})
        np.testing.assert_allclose(found, norm, rtol=1e-6)
        for name, g in gradients.items():
            g = g / max(norm, 1.0)
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            decay = 0.01 * expected[name] if name.endswith("kernel") else 0.0
            expected[name] -= 0.1 * (m[name] / (np.sqrt(v[name]) + 1e-6) + decay)
            np.testing.assert_allclose(variables[name], expected[name], atol=1e-5)


def test_small_gradients_are_not_scaled():
    optimizer, _ = make({"w": np.zeros(2, "float32")}, learning_rate=lambda step: 0.0)
    gradient = np.float32([0.1, 0.3])
    optimizer.apply({"w": tf.constant(gradient)})
    np.testing.assert_allclose(optimizer.slots["w/adam_m"], 0.1 * gradient, rtol=1e-7)


def test_schedule():
    rate = linear_warmup_decay(1.0, num_train_steps=10, num_warmup_steps=4)
    values = [float(rate(step)) for step in range(12)]
    expected = [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert float(linear_warmup_decay(1.0, 10)(0)) == 1.0
