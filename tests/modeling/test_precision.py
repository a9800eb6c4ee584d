"""Ways to compute the same step with less memory or time: recomputation, XLA, half precision."""

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY
from training_helpers import Batches, SomeBatches, assert_same, config, mirrored, run, tensors

import bert_tf
from bert_tf import modeling, optimization, tasks, training
from bert_tf.optimization import loss_scale


@pytest.fixture(autouse=True)
def seed():
    training.set_seed(7)


@pytest.mark.parametrize(
    ("replicas", "parts"), [(1, 1), pytest.param(2, 2, marks=pytest.mark.slow)]
)
def test_recomputation_changes_nothing(tmp_path, replicas, parts):
    """With dropout: its masks must be the same when a layer is computed again."""

    def train(name, **options):
        training.set_seed(7)
        strategy = mirrored(2) if replicas == 2 else None
        parts_option = {"gradient_accumulation_steps": parts}
        run(tmp_path / name, 6, strategy, dropout=0.3, **parts_option, **options)

    train("kept")
    train("again", recompute=True)
    assert_same(tmp_path / "kept", tmp_path / "again", atol=1e-6)


def graph_of_step(**options):
    """The traced step of the made-up task, functions and all, as text and as a list of nodes."""
    task = tasks.PretrainingTask(config(0.1))
    optimizer = optimization.AdamWeightDecay(lambda step: 1e-3)
    optimizer.build(training.checkpointing.weights(task.model))
    step = training.step.TrainStep(task, optimizer, training.TrainConfig(**options))
    batch = {name: tf.constant(value) for name, value in Batches().make(0).items()}
    graph = tf.function(step.replica_step).get_concrete_function(batch).graph.as_graph_def()
    nodes = [node for function in graph.library.function for node in function.node_def]
    return graph, [*graph.node, *nodes]


def products(nodes):
    return sum(node.op in ("MatMul", "BatchMatMulV2") for node in nodes)


@pytest.mark.slow
def test_the_options_of_a_step_are_heeded():
    """The steps are the same with them, so their results alone would not tell."""
    plain, plain_nodes = graph_of_step()
    # Six products forward in each of the two layers, and the two of attention, once more.
    _, nodes = graph_of_step(recompute=True)
    assert products(nodes) - products(plain_nodes) == 2 * (6 + 2)

    def loops(nodes):
        return sum(node.op in ("While", "StatelessWhile") for node in nodes)

    _, nodes = graph_of_step(gradient_accumulation_steps=2)
    assert loops(nodes) == loops(plain_nodes) + 1

    def compiled(graph):
        return sum(function.attr["_XlaMustCompile"].b for function in graph.library.function)

    assert compiled(graph_of_step(xla=True)[0]) > compiled(plain)


@pytest.mark.slow
def test_xla_makes_the_same_steps_on_two_devices(tmp_path):
    run(tmp_path / "plain", 6)
    training.set_seed(7)
    run(tmp_path / "xla", 6, mirrored(2), xla=True)
    assert_same(tmp_path / "plain", tmp_path / "xla", atol=1e-5)


def test_xla_is_for_gpus_and_never_asked_for_on_a_tpu(caplog):
    one_device = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert training.use_xla(None, one_device) is bool(tf.config.list_logical_devices("GPU"))
    assert training.use_xla(True, one_device) is True

    class OnTpu(tf.distribute.TPUStrategy):
        def __init__(self):
            pass

    assert training.use_xla(None, OnTpu()) is False
    assert not caplog.text
    assert training.use_xla(True, OnTpu()) is False
    assert "--xla has no effect on a TPU" in caplog.text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_learns_and_keeps_float32_weights(tmp_path, dtype):
    options = {"dtype": f"mixed_{dtype}"}
    run(tmp_path / "half", 4, **options)
    training.set_seed(7)
    run(tmp_path / "full", 4)
    half, full = tensors(tmp_path / "half"), tensors(tmp_path / "full")
    for name, value in full.items():
        assert half[name].dtype == value.dtype, name
        np.testing.assert_allclose(half[name], value, atol=5e-3)

    trainer = run(tmp_path / "long", 100, rate=3e-3, **options)
    assert trainer.evaluate(SomeBatches())["loss"] < 2.3  # 4.6 at first; 2.1 in float32


def test_float16_resumes_exactly(tmp_path):
    options = {"dtype": "mixed_float16", "dropout": 0.1}
    run(tmp_path / "whole", 6, **options)
    training.set_seed(7)
    run(tmp_path / "parts", 3, total=6, **options)
    run(tmp_path / "parts", 6, **options)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert tensors(tmp_path / "parts")["bert_tf/loss_scale"] == 2.0**15
    assert tensors(tmp_path / "parts")["bert_tf/good_steps"] == 6


@pytest.mark.slow
def test_float16_on_two_devices(tmp_path):
    run(tmp_path / "one", 6, dtype="mixed_float16")
    training.set_seed(7)
    run(tmp_path / "two", 6, mirrored(2), dtype="mixed_float16")
    assert_same(tmp_path / "one", tmp_path / "two", atol=1e-3)


def test_from_float32_to_float16_is_said(tmp_path, caplog):
    run(tmp_path, 2, total=4)
    run(tmp_path, 4, dtype="mixed_float16")
    assert "has no loss scale, as runs that are not in float16; it begins anew" in caplog.text


def make(weight, **options):
    variables = {"w": tf.Variable(weight)}
    optimizer = optimization.AdamWeightDecay(lambda step: 0.1, **options)
    optimizer.build(variables)
    return optimizer, variables["w"]


@pytest.mark.parametrize("bias_correction", [False, True])
def test_a_step_with_infinite_gradients_is_skipped_and_halves_the_scale(
    bias_correction, monkeypatch
):
    monkeypatch.setattr(loss_scale, "GROWTH_STEPS", 3)
    monkeypatch.setattr(loss_scale, "INITIAL_SCALE", 8.0)
    scale = optimization.LossScale()
    optimizer, weight = make([1.0, 2.0], bias_correction=bias_correction)
    plain, plain_weight = make([1.0, 2.0], bias_correction=bias_correction)

    def step(gradient):
        gradients, is_finite = scale.unscale({"w": tf.constant(gradient) * scale.value})
        norm = optimizer.apply(gradients, is_finite, scale.skipped_steps)
        return {name: float(value) for name, value in scale.update(is_finite, norm).items()}

    for gradient in ([np.inf, 1.0], [0.5, 0.25], [np.nan, 1.0], [0.1, 0.2], [0.3, 0.1]):
        reported = step(gradient)
        if np.isfinite(gradient).all():
            plain.apply({"w": tf.constant(gradient)})
            assert reported["skipped_steps"] == 0
        else:
            assert reported["skipped_steps"] == 1
            assert reported["gradient_norm"] == 0  # the loop would take an infinity as the end
        np.testing.assert_array_equal(weight, plain_weight)
    np.testing.assert_array_equal(optimizer.slots["w/adam_v"], plain.slots["w/adam_v"])
    assert float(scale.value) == 2.0
    assert int(optimizer.step) == 5, "a skipped step is a step"
    step([0.1, 0.1])  # the third good one in a row
    assert float(scale.value) == 4.0
    for _ in range(2):
        assert step([np.inf, 1.0])["skipped_steps"] == 1
    assert float(scale.value) == 1.0
    reported = step([np.inf, 1.0])  # nothing is left to halve: it is not the scale's fault
    assert reported["skipped_steps"] == 0
    assert not np.isfinite(reported["gradient_norm"])


def test_loss_scaling_keeps_gradients_that_float16_would_lose(tmp_path):
    """The loss is so small that float16 has no gradients for it without its scale."""

    class Small(tasks.PretrainingTask):
        def losses(self, outputs, batch, weights):
            losses = super().losses(outputs, batch, weights)
            return {name: loss * 1e-7 for name, loss in losses.items()}

    def gradients(float16):
        training.set_seed(7)
        task = Small(config(), "mixed_float16" if float16 else None)
        optimizer = optimization.AdamWeightDecay(lambda step: 0.0)
        optimizer.build(training.checkpointing.weights(task.model))
        step = training.step.TrainStep(task, optimizer, training.TrainConfig())
        batch = {name: tf.constant(value) for name, value in Batches().make(0).items()}
        step.replica_step(batch)
        # The first moment is a tenth of the gradient.
        return 10 * optimizer.slots["bert/encoder/layer_0/output/dense/kernel/adam_m"].numpy()

    full, half = gradients(False), gradients(True)
    assert np.abs(full).max() < 2.0**-24, "less than float16 can hold"
    np.testing.assert_allclose(half, full, atol=0.05 * np.abs(full).max())


def test_model_in_half_precision_is_near_the_full_one():
    batch = {name: tf.constant(value) for name, value in Batches().make(0).items()}
    full = modeling.BertPretrainer(TINY)
    expected = full(batch)
    for dtype in ("mixed_bfloat16", "mixed_float16"):
        half = modeling.BertPretrainer(TINY, dtype=dtype)
        half.set_weights(full.get_weights())
        for name, value in half(batch).items():
            assert value.dtype == tf.float32
            np.testing.assert_allclose(value, expected[name], atol=0.02)


def test_frozen_layers_stay_and_the_rest_moves(tmp_path):
    trainer = run(tmp_path / "none", 1, rate=0.0)
    before = {n: v.numpy() for n, v in training.checkpointing.weights(trainer.model).items()}
    training.set_seed(7)
    run(tmp_path / "some", 3, num_frozen_layers=1)
    after = tensors(tmp_path / "some")
    for name, value in before.items():
        is_frozen = name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))
        assert np.array_equal(value, after[name]) == is_frozen, name
        assert (name + "/adam_m" in after) != is_frozen


def test_frozen_layers_of_another_run_are_named(tmp_path):
    run(tmp_path, 2, num_frozen_layers=1, total=4)
    with pytest.raises(bert_tf.UserError, match=r"adam_m is missing in .* the flags of that run"):
        run(tmp_path, 4)
