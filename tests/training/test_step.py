"""`make_train_step` makes the same steps on several replicas and in several micro-batches."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from tests.training.training_helpers import assert_same, curves, mirrored, run


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_replicas_make_the_same_steps(plain_run, tmp_path, count, monkeypatch):
    # Reports after the first and the last step, however slow the machine is.
    monkeypatch.setattr("bert_tf.training.progress.SECONDS_PER_REPORT", np.inf)
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


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 4])
def test_accumulation_makes_the_same_steps(plain_run, tmp_path, parts):
    """Micro-batches have different masked-LM weights, so a mean of means would differ."""
    run(tmp_path, 20, gradient_accumulation_steps=parts)
    assert_same(plain_run, tmp_path, atol=1e-5)


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
