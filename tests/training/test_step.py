"""`make_train_step` makes the same steps on several replicas and in several micro-batches."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.configs.train import TrainConfig
from bert_tf.optimization import LAMB, AdamWeightDecay
from bert_tf.training import checkpointing
from bert_tf.training.tensorflow_engine import make_run_steps, make_train_step
from tests.training.test_fit_equals_loop import batches, make_objective
from tests.training.training_helpers import assert_same, curves, mirrored, one_device, run


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_replicas_make_the_same_steps(plain_run, tmp_path, count, monkeypatch):
    # Reports after the first and the last step, however slow the machine is.
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_REPORT", np.inf)
    loop = run(tmp_path, 20, mirrored(count))
    weight = loop.model.trainable_variables[0].value
    handles = [weakref.ref(replica.handle) for replica in weight.values]
    del loop, weight
    gc.collect()
    assert [handle() for handle in handles] == [None] * count, "weights stay in memory"
    assert_same(plain_run, tmp_path, atol=1e-5)
    one, more = curves(plain_run), curves(tmp_path)
    losses = {"masked_lm_loss", "next_sentence_loss", "loss", "gradient_norm", "learning_rate"}
    assert one.keys() == more.keys()
    assert {name for name, step in one if step == 1} == losses
    assert {name for name, step in one if step == 20} == {*losses, "examples_per_second"}
    for (name, step), value in one.items():
        if name != "examples_per_second":
            assert more[name, step] == pytest.approx(value, abs=1e-5), (name, step)


@pytest.mark.parametrize("parts", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_accumulation_makes_the_same_steps(plain_run, tmp_path, parts):
    """Micro-batches have different masked-LM weights, so a mean of means would differ."""
    run(tmp_path, 20, gradient_accumulation_steps=parts)
    assert_same(plain_run, tmp_path, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}, {"xla": True}])
def test_lamb_makes_the_same_steps(tmp_path, options):
    for name, strategy in ("one", one_device()), ("two", mirrored(2)):
        keras.utils.set_random_seed(7)
        run(tmp_path / name, 10, strategy, optimizer=LAMB, **options)
    assert_same(tmp_path / "one", tmp_path / "two", atol=1e-5)


@pytest.mark.parametrize("case", ["contrastive", pytest.param("cosent", marks=pytest.mark.slow)])
def test_examples_of_all_replicas_are_compared(case):
    """These losses compare the vectors of a batch, so replicas exchange them in the step."""
    results = []
    for strategy in (one_device(), mirrored(2)):
        with strategy.scope():
            objective, optimizer = make_objective(case), AdamWeightDecay(1e-3)
            optimizer.build(checkpointing.trainable_weights(objective.model))
            step = make_train_step(objective, optimizer, TrainConfig())
        steps = make_run_steps(step, objective, strategy)
        data = strategy.experimental_distribute_dataset(batches(case, 8))
        sums, _ = steps(iter(data), tf.constant(2))
        results.append([sums["loss"], sums["gradient_norm"], *optimizer.weights.values()])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_replicas_draw_different_masks():
    """Keras' dropout would apply the same mask to the same rows on two replicas."""
    strategy = mirrored(2)
    with strategy.scope():
        layer = modeling.Dropout(0.5)

    def masked():
        replica = tf.distribute.get_replica_context()
        return layer(tf.ones((2, 64)), training=True, replica_id=replica.replica_id_in_sync_group)

    first = strategy.experimental_local_results(tf.function(lambda: strategy.run(masked))())
    assert 30 < np.count_nonzero(first[0]) < 100
    assert np.mean(first[0].numpy() == first[1].numpy()) < 0.75
    second = strategy.experimental_local_results(tf.function(lambda: strategy.run(masked))())
    assert np.mean(first[0].numpy() == second[0].numpy()) < 0.75
