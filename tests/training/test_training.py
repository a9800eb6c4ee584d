"""The loop on a made-up set: it learns, resumes, warm-starts, and is the same on two devices."""

import gc
import itertools
import os
import weakref

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY

import bert_tf
from bert_tf import checkpoints, modeling, optimization, tasks, training
from bert_tf.data import input_pipeline


@pytest.fixture(autouse=True)
def seed():
    training.set_seed(7)


class Batches:
    """Endless batches for pre-training; the masked word is the one after its left neighbour."""

    batch_size, length, seed = 4, 8, 0

    def make(self, step):
        rng = np.random.default_rng(step)
        ids = rng.integers(5, 13, (self.batch_size, self.length)).astype("int32")
        ids[:, 2] = ids[:, 1] + 1
        labels = ids[:, 2:3].copy()
        ids[:, 2] = 4
        weights = np.ones((self.batch_size, 1), "float32")
        weights[0] = step % 2  # uneven over the replicas
        return {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_lm_positions": np.full((self.batch_size, 1), 2, "int32"),
            "masked_lm_ids": labels.astype("int32"),
            "masked_lm_weights": weights,
            "next_sentence_labels": (ids[:, :1] % 2).astype("int32"),
        }

    def batches(self, first_step=0, context=None):
        def generate():
            for step in itertools.count(first_step):
                yield self.make(step)

        spec = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), self.make(0))
        dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
        return input_pipeline.mark_infinite(
            input_pipeline.shard_batches(dataset, self.batch_size, context)
        )

    def files_of(self, step):
        return [f"made up for step {step}"]


class SomeBatches(Batches):
    """Twenty of them, as evaluation wants them."""

    def batches(self, context=None):
        def mark(batch):
            return {**batch, "is_real_example": tf.ones_like(batch["next_sentence_labels"][:, 0])}

        each = 20 * (context.num_replicas_in_sync if context else 1)
        each //= context.num_input_pipelines if context else 1
        return super().batches(1000, context).take(each).map(mark)


def config(dropout=0.0):
    return bert_tf.BertConfig.from_dict(
        {
            **TINY.to_dict(),
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
        }
    )


def run(
    output_dir,
    steps,
    strategy=None,
    dropout=0.0,
    total=None,
    init=None,
    rate=1e-3,
    save=1000,
    data=None,
    dtype=None,
    optimizer=optimization.AdamWeightDecay,
    **options,
):
    trainer = training.Trainer(
        lambda: tasks.PretrainingTask(config(dropout), dtype),
        strategy or training.make_strategy(distribution_strategy="one_device"),
        str(output_dir),
        init,
    )
    schedule = optimization.linear_warmup_decay(rate, total or steps)
    options = training.TrainConfig(save_checkpoints_steps=save, **options)
    trainer.train(data or Batches(), optimizer(schedule), steps, options, SomeBatches())
    return trainer


class Labelled(Batches):
    """Endless batches for classification, rows of one replica alike in label."""

    def make(self, step):
        batch = super().make(step)
        names = ("input_ids", "input_mask", "segment_ids")
        labels = np.int32([0, 0, 1, step % 3])
        return {**{name: batch[name] for name in names}, "label_ids": labels}


class WeighsLabels(tasks.ClassificationTask):
    """A task whose examples count for as much as their label says."""

    def loss_weights(self, batch):
        return {"examples": tf.reduce_sum(self._weights(batch))}

    def losses(self, outputs, batch, weights):
        losses = self._example_losses(outputs, batch) * self._weights(batch)
        return {"classification_loss": tf.reduce_sum(losses) / weights["examples"]}

    def _weights(self, batch):
        return tf.gather([0.5, 1.0, 4.0], batch["label_ids"])


def run_classifier(output_dir, strategy=None, steps=20):
    trainer = training.Trainer(
        lambda: WeighsLabels(config(), 3),
        strategy or training.make_strategy(distribution_strategy="one_device"),
        str(output_dir),
    )
    schedule = optimization.linear_warmup_decay(1e-3, steps)
    # The pooled output is followed by a dropout whatever the config says.
    trainer.model.layers[-2].rate = 0.0
    trainer.train(Labelled(), optimization.AdamWeightDecay(schedule), steps)
    return trainer


def mirrored(count):
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert len(devices) >= count, "conftest.py makes logical devices"
    return tf.distribute.MirroredStrategy(
        devices[:count], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def tensors(output_dir):
    prefix = training.latest(str(output_dir))
    source = checkpoints.ReleaseCheckpoint(prefix)
    return {name: source.tensor(name) for name in source.shapes}


def assert_same(a, b, atol=0.0):
    a, b = tensors(a), tensors(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], atol=atol, rtol=0, err_msg=name)


def test_it_learns(tmp_path):
    trainer = run(tmp_path, 600, rate=3e-3)
    results = trainer.evaluate(SomeBatches())
    assert results["masked_lm_accuracy"] > 0.5  # by chance 1 in 8
    assert results["global_step"] == 600


def test_losses_are_the_release_s(shared):
    folder = shared / "golden" / "model_tiny"
    golden = dict(np.load(folder / "io.npz"))
    tiny = bert_tf.BertConfig.from_json_file(str(folder / "bert_config.json"))
    task = tasks.PretrainingTask(tiny)
    checkpoints.warm_start(task.model, str(folder / "bert_model.ckpt"))
    batch = {k: tf.constant(v) for k, v in golden.items() if not k.startswith("out_")}
    outputs = task.model(batch)
    losses = task.losses(outputs, batch, task.loss_weights(batch))
    results = task.metrics({k: v.numpy() for k, v in task.predictions(outputs, batch).items()})
    for name in ("masked_lm_loss", "next_sentence_loss"):
        np.testing.assert_allclose(losses[name], golden[f"out_{name}"], atol=2e-5)
        np.testing.assert_allclose(results[name], golden[f"out_{name}"], atol=2e-5)
    example_losses = task._masked_lm_losses(outputs, {**batch, "masked_lm_weights": 1.0})
    np.testing.assert_allclose(
        np.ravel(example_losses), golden["out_masked_lm_per_example_loss"], atol=2e-5
    )


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_resume_is_exact(tmp_path, dropout):
    """Six steps at once, or three, a new trainer, and three more: the same to the bit."""
    run(tmp_path / "whole", 6, dropout=dropout, save=3)
    training.set_seed(7)
    run(tmp_path / "parts", 3, dropout=dropout, total=6)
    training.set_seed(8)  # what is resumed must not depend on it
    run(tmp_path / "parts", 6, dropout=dropout)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_damaged_newest_checkpoint_falls_back(tmp_path, caplog):
    run(tmp_path / "whole", 6, save=2)
    training.set_seed(7)
    run(tmp_path / "hurt", 4, total=6, save=2)
    data = tmp_path / "hurt" / "model.ckpt-4.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1000])  # the moments are at its end, not the weights
    run(tmp_path / "hurt", 6, save=2)
    assert "model.ckpt-4: tensor" in caplog.text
    assert "going back to the checkpoint before" in caplog.text
    assert_same(tmp_path / "whole", tmp_path / "hurt")

    for path in (tmp_path / "hurt").glob("model.ckpt-*.data-*"):
        path.write_bytes(b"")
    with pytest.raises(bert_tf.UserError, match=r"none of the checkpoints in .* can be read"):
        run(tmp_path / "hurt", 6)


def test_a_folder_that_tensorflow_could_not_read_is_refused_at_once(tmp_path):
    with pytest.raises(bert_tf.UserError, match=r"--output_dir: .*run\[1\] has \[ \] in it"):
        run(tmp_path / "run[1]", 2)


def test_a_run_of_the_release_goes_on(tmp_path, caplog):
    """Its folders have weights, moments and step, and nothing of ours."""
    run(tmp_path / "ours", 2, dropout=0.1, total=4)
    theirs = {n: v for n, v in tensors(tmp_path / "ours").items() if not n.startswith("bert_tf/")}
    checkpoints.write(str(tmp_path / "theirs" / "model.ckpt-2"), theirs)
    run(tmp_path / "theirs", 4, dropout=0.1)
    assert "no state of the dropouts, as the release's runs" in caplog.text
    assert tensors(tmp_path / "theirs")["global_step"] == 4


def test_a_lost_state_file_loses_no_checkpoint(tmp_path, caplog):
    run(tmp_path, 2)
    (tmp_path / "checkpoint").unlink()
    caplog.set_level("INFO")
    run(tmp_path, 2)
    assert "nothing to do" in caplog.text


def test_two_processes_on_one_folder_are_refused(tmp_path, monkeypatch):
    left = tmp_path / "model.ckpt-9.tmp-123.index"
    with training.exclusive_directory(str(tmp_path)):
        left.write_text("of a run that was killed")
        monkeypatch.setattr(training.loop, "_HELD", set())  # as if this were another process
        with pytest.raises(bert_tf.UserError, match=rf"process \(number {os.getpid()}\) trains in"):
            run(tmp_path, 1)
        monkeypatch.undo()
    run(tmp_path, 1)
    assert not left.exists()


def test_a_run_leaves_nothing_behind(tmp_path):
    trainer = run(tmp_path, steps=2)
    # What a variable of TensorFlow lives as long as.
    handle = weakref.ref(trainer.model.trainable_variables[0].value.handle)
    del trainer
    gc.collect()
    assert handle() is None, "many seeds in one process want the memory of one"


def curves(output_dir):
    """What TensorBoard shows of a run: dict from (name, step) to number."""
    return {
        (value.tag, event.step): float(tf.make_ndarray(value.tensor))
        for path in output_dir.glob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_replicas_make_the_same_steps(tmp_path, count, monkeypatch):
    # A line after the first step and one after the last, however slow the machine is.
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_REPORT", np.inf)
    run(tmp_path / "one", 20)
    training.set_seed(7)
    run(tmp_path / "more", 20, mirrored(count))
    assert_same(tmp_path / "one", tmp_path / "more", atol=1e-5)
    one, more = curves(tmp_path / "one"), curves(tmp_path / "more")
    losses = {"masked_lm_loss", "next_sentence_loss", "loss", "gradient_norm", "learning_rate"}
    assert one.keys() == more.keys()
    assert {name for name, step in one if step == 1} == losses
    assert {name for name, step in one if step == 20} == {*losses, "examples_per_second"}
    for (name, step), value in one.items():
        if name != "examples_per_second":
            assert more[name, step] == pytest.approx(value, abs=1e-5), (name, step)


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_replicas_make_the_same_steps_with_labels_of_unequal_weight(tmp_path, count):
    run_classifier(tmp_path / "one")
    training.set_seed(7)
    run_classifier(tmp_path / "more", mirrored(count))
    assert_same(tmp_path / "one", tmp_path / "more", atol=1e-5)


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_accumulation_makes_the_same_steps(tmp_path, parts):
    """The masked-LM weights fall unevenly on the parts: a mean of means would differ."""
    run(tmp_path / "one", 8)
    training.set_seed(7)
    run(tmp_path / "parts", 8, gradient_accumulation_steps=parts)
    assert_same(tmp_path / "one", tmp_path / "parts", atol=1e-5)


def test_replicas_draw_different_masks():
    """The same rows on two replicas, which Keras' own dropout would treat alike."""
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


def test_host_loop_length_changes_nothing(tmp_path, monkeypatch):
    run(tmp_path / "a", 6)
    training.set_seed(7)
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_LOOP", 0.0)
    run(tmp_path / "b", 6)
    assert_same(tmp_path / "a", tmp_path / "b")


def test_checkpoints_are_kept_and_named_as_in_the_release(tmp_path):
    run(tmp_path, 14, save=2)
    names = {path.name for path in tmp_path.glob("model.ckpt-*.index")}
    assert names == {f"model.ckpt-{step}.index" for step in (6, 8, 10, 12, 14)}
    assert 'model_checkpoint_path: "model.ckpt-14"' in (tmp_path / "checkpoint").read_text()
    names = tensors(tmp_path)
    assert names["global_step"] == 14
    assert "bert/encoder/layer_1/output/dense/kernel/adam_v" in names
    assert not list(tmp_path.glob("*tmp*"))


def test_finished_run_is_not_trained_again(tmp_path, caplog):
    run(tmp_path, 2)
    caplog.set_level("INFO")
    before = tensors(tmp_path)
    run(tmp_path, 2, init="nowhere")
    assert "nothing to do" in caplog.text
    assert "--init_checkpoint is not read" in caplog.text
    for name, value in tensors(tmp_path).items():
        np.testing.assert_array_equal(value, before[name])


def test_warm_start_takes_weights_and_not_the_step(tmp_path):
    run(tmp_path / "first", 3)
    run(tmp_path / "second", 1, init=str(tmp_path / "first"), rate=0.0)
    first, second = tensors(tmp_path / "first"), tensors(tmp_path / "second")
    assert second["global_step"] == 1
    name = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(first[name], second[name])


def test_other_model_in_output_dir_is_refused(tmp_path):
    run(tmp_path, 1)
    with pytest.raises(bert_tf.UserError, match=r"--output_dir: .* is missing in"):
        training.Trainer(
            lambda: tasks.ClassificationTask(config(), 2),
            training.make_strategy(distribution_strategy="one_device"),
            str(tmp_path),
        )


def test_nan_stops_the_run(tmp_path):
    with pytest.raises(
        bert_tf.UserError,
        match=r"is (nan|inf) at step \d+, whose batch is from made up for step \d+; "
        "there is no checkpoint yet",
    ):
        run(tmp_path, 50, rate=1e30)


def test_batch_that_does_not_divide():
    class Strategy:
        num_replicas_in_sync = 4

    assert training.per_replica(32, Strategy, "train_batch_size") == 8
    with pytest.raises(bert_tf.UserError, match=r"train_batch_size=30 .* 28 or 32"):
        training.per_replica(30, Strategy, "train_batch_size")
    with pytest.raises(bert_tf.UserError, match=r"of 3 .* each; the nearest that do: 24 or 36"):
        training.per_replica(32, Strategy, "train_batch_size", parts=3)


def test_tpu_flags(caplog):
    with pytest.raises(bert_tf.UserError, match="--use_tpu wants --tpu_name"):
        training.make_strategy(use_tpu=True)
    with pytest.raises(bert_tf.UserError, match="exclude each other"):
        training.make_strategy(use_tpu=True, tpu_name="x", distribution_strategy="mirrored")
    training.make_strategy(tpu_name="mine", distribution_strategy="one_device")
    assert "--tpu_name=mine has no effect without --use_tpu" in caplog.text
