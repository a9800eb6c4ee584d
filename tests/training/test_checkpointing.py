"""Checkpoints of a run: which are kept, damaged checkpoints, the record of the best."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.training import checkpointing
from tests.training.training_helpers import tensors


def test_checkpoints_are_kept_and_named_as_in_the_release(plain_run):
    names = {path.name for path in plain_run.glob("model.ckpt-*.index")}
    assert names == {f"model.ckpt-{step}.index" for step in (9, 12, 15, 18, 20)}
    assert 'model_checkpoint_path: "model.ckpt-20"' in (plain_run / "checkpoint").read_text()
    names = tensors(plain_run)
    assert names["global_step"] == 20
    assert "bert/encoder/layer_0/output/dense/kernel/adam_v" in names
    assert not list(plain_run.glob("*tmp*"))


def test_damaged_newest_checkpoint_is_skipped(tmp_path, caplog):
    variables = {"w": tf.Variable(tf.zeros(1000)), "global_step": tf.Variable(0)}
    for step in (2, 4):
        variables["w"].assign(tf.fill([1000], float(step)))
        variables["global_step"].assign(step)
        checkpointing.save(str(tmp_path), variables)
    data = tmp_path / "model.ckpt-4.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1000])
    prefix = checkpointing.restore_latest(str(tmp_path), variables)
    assert prefix == str(tmp_path / "model.ckpt-2")
    assert "model.ckpt-4: cannot read" in caplog.text
    assert "using the checkpoint before it" in caplog.text
    assert variables["global_step"].numpy() == 2
    np.testing.assert_array_equal(variables["w"], np.full(1000, 2.0))
    (tmp_path / "model.ckpt-2.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(bert_tf.UserError, match=rf"`output_dir`: none of .*{tmp_path} can be read"):
        checkpointing.restore_latest(str(tmp_path), variables)


def evaluate(best, step, value):
    """Update a `BestCheckpoint` with an evaluation."""
    weights = {"w": tf.Variable([value]), "global_step": tf.Variable(step, dtype=tf.int64)}
    results = {"accuracy": value, "loss": value, "global_step": step}
    best.update(results, weights, writes=True)


def test_evaluations_on_different_data_are_not_compared(tmp_path, caplog):
    best = checkpointing.BestCheckpoint(str(tmp_path), "accuracy")
    best.use_data("short")
    for step, value in ((2, 0.9), (4, 0.8)):
        evaluate(best, step, value)
    again = resume(tmp_path)
    again.use_data("short")
    assert (again.step, again.since) == (2, [4]) and not caplog.text
    again.use_data("long")
    assert "different development data" in caplog.text and again.since == []
    assert resume(tmp_path).value == 0.9, "nothing is lost before the next evaluation"
    evaluate(again, 6, 0.3)
    assert read_record(tmp_path) == (6, 0.3, [])
    assert resume(tmp_path).data == "long"


def resume(output_dir, metric="accuracy", step=1000):
    best = checkpointing.BestCheckpoint(str(output_dir), metric)
    best.rewind(step)
    return best


def read_record(output_dir):
    record = json.loads((output_dir / "best" / "best.json").read_text())
    return record["step"], record["value"], record["since"]


def test_lower_is_better_for_a_loss_and_higher_for_others(tmp_path):
    for metric, step in (("accuracy", 4), ("loss", 2)):
        best = checkpointing.BestCheckpoint(str(tmp_path / metric), metric)
        for number, value in enumerate([0.1, 0.5, 0.3, 0.5], 1):
            evaluate(best, 2 * number, value)
        assert best.step == step
        assert best.since == list(range(step + 2, 10, 2))
        np.testing.assert_allclose(tensors(tmp_path / metric / "best")["w"], [best.value])
        again = resume(tmp_path / metric, metric)
        assert (again.step, again.value, again.since) == (best.step, best.value, best.since)
        assert again.has_seen(8) and again.has_seen(step) and not again.has_seen(10)


def test_nan_is_never_the_best(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "accuracy")
    for step, value in ((2, np.nan), (4, 0.5), (6, np.nan), (8, 0.4)):
        evaluate(best, step, value)
        if step == 2:
            assert (best.step, best.since) == (None, [2]), "it counts for early stopping"
    assert read_record(tmp_path) == (4, 0.5, [6, 8])


def test_best_of_later_steps_is_forgotten_when_a_run_is_reset(tmp_path, caplog):
    """Otherwise a value that the run never reaches again would stay the best."""
    best = checkpointing.BestCheckpoint(str(tmp_path), "accuracy")
    for step, value in ((2, 0.1), (4, 0.2), (6, 0.9)):
        evaluate(best, step, value)
    best = resume(tmp_path, step=4)
    assert "is from step 6, but the run is at step 4" in caplog.text
    assert (best.step, best.value) == (None, None)
    evaluate(best, 6, 0.3)
    evaluate(best, 8, 0.2)
    assert read_record(tmp_path) == (6, 0.3, [8])
    assert resume(tmp_path, step=6).since == []


def test_latest_is_named_by_the_file_or_has_the_highest_step(tmp_path, caplog):
    assert checkpointing.latest(str(tmp_path / "missing")) is None
    for step in (2, 10, 4):
        variables = {"global_step": tf.Variable(step, dtype=tf.int64)}
        checkpointing.save(str(tmp_path), variables)
    assert checkpointing.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-4")
    assert checkpointing.read_step(str(tmp_path / "model.ckpt-4")) == 4
    # A user resets a run by editing the file.
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    assert checkpointing.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    for text in (b'model_checkpoint_path: "model.ckpt-9"', b"\x80\xff\n", b"x", b""):
        (tmp_path / "checkpoint").write_bytes(text)
        assert checkpointing.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-10")
        assert f"{tmp_path}/checkpoint" in caplog.text
        with pytest.raises(bert_tf.UserError, match=f"{tmp_path}/checkpoint"):
            bert_tf.checkpoints.find(str(tmp_path))
        caplog.clear()
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "model.ckpt-99.tmp-123.index").touch()  # left by a killed process
    assert checkpointing.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-10")
