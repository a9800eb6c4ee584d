"""Recomputation, XLA, half precision and frozen layers, which save memory or time."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, configs, optimization, training
from bert_tf.training.pretraining import PretrainingObjective
from tests.common import WITHOUT_DROPOUT, tiny
from tests.training import training_helpers
from tests.training.training_helpers import Batches, assert_same, mirrored, run, tensors


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(7)


@pytest.fixture
def two_layers(monkeypatch):
    config = functools.partial(training_helpers.config, num_hidden_layers=2)
    monkeypatch.setattr(training_helpers, "config", config)


def batch_of_step(step):
    return {name: tf.constant(value) for name, value in Batches().make(step).items()}


def make_step(objective, rate, **options):
    """Return a training step of a task and its optimizer."""
    optimizer = optimization.AdamWeightDecay(rate)
    loss_scale = training.LossScale.of(objective.model)
    optimizer.build(checkpoints.weights(objective.model))
    config = configs.TrainConfig(**options)
    return training.make_train_step(objective, optimizer, config, loss_scale), optimizer


def state_after_steps(dtype=None, dropout=0.0, steps=4, **options):
    """Make steps; return all variables by name, including dropout's seeds."""
    keras.utils.set_random_seed(7)
    objective = PretrainingObjective(training_helpers.config(dropout), dtype)
    step, optimizer = make_step(objective, optimization.LinearWarmupDecay(1e-3, steps), **options)
    for i in range(steps):
        step(batch_of_step(i))
    variables = {**optimizer.weights, **optimizer.slots}
    variables |= {str(i): v.value for i, v in enumerate(objective.model.non_trainable_variables)}
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("common", "changes", "atol"),
    [
        (
            {"strategy": 2, "dropout": 0.3, "gradient_accumulation_steps": 2},
            {"recompute": True},
            1e-6,
        ),
        ({}, {"strategy": 2, "xla": True}, 1e-5),
        ({"dtype": "mixed_float16"}, {"strategy": 2}, 1e-3),
    ],
    ids=["recomputation", "xla", "float16"],
)
def test_the_same_steps_on_two_devices(tmp_path, common, changes, atol, monkeypatch):
    # With a larger scale, the first step overflows on one device, but not its halves on two.
    monkeypatch.setattr(training.tensorflow_engine, "INITIAL_SCALE", 2.0**10)
    for name, options in (("plain", common), ("changed", {**common, **changes})):
        keras.utils.set_random_seed(7)
        strategy = mirrored(2) if "strategy" in options else None
        run(tmp_path / name, 6, **{**options, "strategy": strategy})
    assert_same(tmp_path / "plain", tmp_path / "changed", atol=atol)


def graph_of_step(**options):
    """Return the graph of a traced step, and all nodes including its functions' nodes."""
    objective = PretrainingObjective(training_helpers.config(0.1))
    step, _ = make_step(objective, 1e-3, **options)
    batch = batch_of_step(0)
    graph = tf.function(step).get_concrete_function(batch).graph.as_graph_def()
    nodes = [node for function in graph.library.function for node in function.node_def]
    return graph, [*graph.node, *nodes]


def products(nodes):
    return sum(node.op in ("MatMul", "BatchMatMulV2") for node in nodes)


@pytest.mark.slow
def test_the_options_of_a_step_take_effect(two_layers):
    """They do not change the results, so the test checks the graph."""
    plain, plain_nodes = graph_of_step()
    # Each of the two layers recomputes its six products and attention's two.
    _, nodes = graph_of_step(recompute=True)
    assert products(nodes) - products(plain_nodes) == 2 * (6 + 2)

    def loops(nodes):
        return sum(node.op in ("While", "StatelessWhile") for node in nodes)

    _, nodes = graph_of_step(gradient_accumulation_steps=2)
    assert loops(nodes) == loops(plain_nodes) + 1

    def compiled(graph):
        return sum(function.attr["_XlaMustCompile"].b for function in graph.library.function)

    assert compiled(graph_of_step(xla=True)[0]) > compiled(plain)


def test_half_precision_makes_similar_steps_and_keeps_float32_weights(monkeypatch):
    # In wide models, rounding changes the sign of gradients near 0, and so their first updates.
    narrow = tiny(**WITHOUT_DROPOUT, num_hidden_layers=1)
    monkeypatch.setattr(training_helpers, "config", lambda _: narrow)
    full = state_after_steps()
    for dtype in ("mixed_bfloat16", "mixed_float16"):
        half = state_after_steps(dtype)
        for name, value in full.items():
            assert half[name].dtype == value.dtype, name
            np.testing.assert_allclose(half[name], value, atol=5e-3)


def make(weight, **options):
    variables = {"w": tf.Variable(weight)}
    optimizer = optimization.AdamWeightDecay(0.1, **options)
    optimizer.build(variables)
    return optimizer, variables["w"]


@pytest.mark.parametrize("bias_correction", [False, True])
def test_a_step_with_infinite_gradients_is_skipped_and_halves_the_scale(
    bias_correction, monkeypatch
):
    monkeypatch.setattr(training.tensorflow_engine, "GROWTH_STEPS", 3)
    monkeypatch.setattr(training.tensorflow_engine, "INITIAL_SCALE", 8.0)
    scale = training.tensorflow_engine.LossScale()
    optimizer, weight = make([1.0, 2.0], bias_correction=bias_correction)
    plain, plain_weight = make([1.0, 2.0], bias_correction=bias_correction)

    def step(gradient):
        gradients, value = {"w": tf.constant(gradient) * scale.value}, scale.value.read_value()
        norm = optimizer.apply_reduced(gradients, value, scale.skipped_steps)
        return {name: float(value) for name, value in scale.update(norm).items()}

    for gradient in ([np.inf, 1.0], [0.5, 0.25], [np.nan, 1.0], [0.1, 0.2], [0.3, 0.1]):
        reported = step(gradient)
        if np.isfinite(gradient).all():
            plain.apply_reduced({"w": tf.constant(gradient)})
            assert reported["skipped_steps"] == 0
        else:
            assert reported["skipped_steps"] == 1
            assert reported["gradient_norm"] == 0  # the training loop stops at an infinite norm
        np.testing.assert_array_equal(weight, plain_weight)
    np.testing.assert_array_equal(optimizer.slots["w/adam_v"], plain.slots["w/adam_v"])
    assert float(scale.value) == 2.0
    assert int(optimizer.step) == 5, "a skipped step counts"
    step([0.1, 0.1])  # the third finite step in a row
    assert float(scale.value) == 4.0
    for _ in range(2):
        assert step([np.inf, 1.0])["skipped_steps"] == 1
    assert float(scale.value) == 1.0
    reported = step([np.inf, 1.0])  # the scale is at its minimum, so it is not the cause
    assert reported["skipped_steps"] == 0
    assert not np.isfinite(reported["gradient_norm"])


def test_loss_scaling_keeps_gradients_that_float16_would_lose():
    """The loss is so small that its float16 gradients are 0 without the scale."""

    class Small(PretrainingObjective):
        def losses(self, outputs, batch, denominators, training=True):
            losses = super().losses(outputs, batch, denominators)
            return {name: loss * 1e-7 for name, loss in losses.items()}

    def gradients(float16):
        keras.utils.set_random_seed(7)
        objective = Small(training_helpers.config(), "mixed_float16" if float16 else None)
        step, optimizer = make_step(objective, 0.0)
        batch = batch_of_step(0)
        step(batch)
        # The first moment is a tenth of the gradient.
        return 10 * optimizer.slots["bert/encoder/layer_0/output/dense/kernel/adam_m"].numpy()

    full, half = gradients(False), gradients(True)
    assert np.abs(full).max() < 2.0**-24, "less than float16 can hold"
    np.testing.assert_allclose(half, full, atol=0.05 * np.abs(full).max())


def test_frozen_layers_do_not_change(tmp_path, two_layers):
    before = checkpoints.tensors(PretrainingObjective(training_helpers.config()).model)
    keras.utils.set_random_seed(7)
    run(tmp_path, 3, num_frozen_layers=1, total=4)
    after = tensors(tmp_path)
    for name, value in before.items():
        is_frozen = name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))
        assert np.array_equal(value, after[name]) == is_frozen, name
        assert (name + "/adam_m" in after) != is_frozen

    with pytest.raises(bert_tf.UserError, match=r"`output_dir`: .*adam_m is missing in .*ckpt-3"):
        run(tmp_path, 4)
