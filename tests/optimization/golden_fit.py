"""Replay the release's recorded steps with Keras' `fit` on any backend.

As a script, it prints the largest difference: `KERAS_BACKEND=jax python golden_fit.py FILE`.
"""

import sys

import keras
import numpy as np
from keras import ops

import bert_tf


def flat(name):
    """Return a name of the release in a form that Keras allows."""
    return name.replace("/", "_")


class Golden(keras.layers.Layer):
    """A model whose weights have the inputs as gradients."""

    def __init__(self, values):
        super().__init__(name="golden")
        self.values = values

    def build(self, *_):
        self.variables_by_name = {
            name: self.add_weight(
                shape=value.shape,
                initializer=lambda shape, dtype, value=value: ops.convert_to_tensor(value, dtype),
                name=flat(name),
            )
            for name, value in self.values.items()
        }
        self.unused = self.add_weight(shape=(2,), initializer="ones", name="unused")

    def call(self, gradients):
        products = [gradients[v.name] * v for v in self.variables_by_name.values()]
        return sum(ops.sum(ops.reshape(x, (ops.shape(x)[0], -1)), axis=1) for x in products)


def read(path):
    """Return the initial weights of a file and its other arrays."""
    golden = np.load(path)
    names = [key.removeprefix("init|") for key in golden.files if key.startswith("init|")]
    return {name: golden[f"init|{name}"] for name in names}, golden


def model_of(initial):
    """Return an uncompiled `Golden` model; its loss is the mean of its outputs."""
    inputs = {flat(x): keras.Input(value.shape, name=flat(x)) for x, value in initial.items()}
    return keras.Model(inputs, Golden(initial)(inputs))


def loss(_, outputs):
    """Return the outputs, which are the loss."""
    return outputs


def optimizer_of(golden, **options):
    """Return the optimizer of a file."""
    rate, total, warmup, _ = golden["hyper"]
    schedule = bert_tf.LinearWarmupDecay(float(rate), int(total), int(warmup))
    return bert_tf.AdamWeightDecay(schedule, **options)


def examples(initial, golden, seed=0):
    """Return two examples per step whose mean gradient is the recorded gradient."""
    rng = np.random.default_rng(seed)
    steps = range(int(golden["hyper"][3]))
    inputs = {}
    for name, value in initial.items():
        gradients = np.stack([golden[f"grad{i}|{name}"] for i in steps])
        parts = rng.normal(size=gradients.shape).astype("float32")
        pairs = np.stack([gradients + parts, gradients - parts], axis=1)
        inputs[flat(name)] = pairs.reshape(-1, *value.shape)
    return inputs, np.zeros(2 * len(steps), "float32")


def largest_difference(model, golden):
    """Return the largest difference from the recorded weights and moments after the last step."""
    last = int(golden["hyper"][3]) - 1
    variables = model.layers[-1].variables_by_name
    moments = {v.name: v for v in model.optimizer.variables}
    differences = [abs(float(model.layers[-1].unused[0]) - 1.0)]
    for name, variable in variables.items():
        pairs = [(variable, golden[f"weight{last}|{name}"])]
        for slot in ("adam_m", "adam_v"):
            pairs.append((moments[f"{flat(variable.path)}_{slot}"], golden[f"slot|{name}/{slot}"]))
        differences += [np.abs(ops.convert_to_numpy(a) - b).max() for a, b in pairs]
    return max(differences)


if __name__ == "__main__":
    initial, golden = read(sys.argv[1])
    model = model_of(initial)
    model.compile(optimizer_of(golden), loss)
    model.fit(*examples(initial, golden), batch_size=2, shuffle=False, verbose=0)
    if keras.backend.backend() != "tensorflow":
        assert "tensorflow" not in sys.modules
    print(largest_difference(model, golden))
