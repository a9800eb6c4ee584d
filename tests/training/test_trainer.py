"""`Trainer` learns, resumes exactly, warm-starts and evaluates."""

import collections
import functools
import gc
import pathlib
import shutil
import unittest.mock
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, configs, optimization, tasks, training
from bert_tf.data import input_pipeline, records
from bert_tf.device_check import RECORDED
from tests.training.training_helpers import (
    Batches,
    LabeledBatches,
    SomeBatches,
    assert_same,
    config,
    one_device,
    run,
    tensors,
)


@pytest.mark.parametrize(
    ("mask_padding", "xla", "expected"),
    [(True, None, True), (False, None, False), (True, True, False)],
)
def test_padding_is_left_out_where_nothing_reads_it(
    tmp_path, monkeypatch, mask_padding, xla, expected
):
    task_config = tasks.QuestionAnsweringConfig(config(), n_best_size=2, max_answer_length=3)

    def make_task():
        return tasks.question_answering.QuestionAnsweringTask(
            task_config, mask_padding=mask_padding
        )

    trainer = training.Trainer(make_task, one_device(), str(tmp_path))
    assert trainer.model.skip_padding is mask_padding
    monkeypatch.setattr("bert_tf.training.trainer.TrainLoop", unittest.mock.Mock())
    trainer.fit(None, None, 10, configs.TrainConfig(xla=xla))
    assert trainer.model.skip_padding is expected


@pytest.mark.slow
def test_it_learns(tmp_path):
    trainer = run(tmp_path, 600, rate=3e-3)
    results = trainer.evaluate(SomeBatches())
    assert results["masked_lm_accuracy"] > 0.5  # 1 in 8 by chance
    assert results["global_step"] == 600


def test_losses_equal_the_release():
    folder = RECORDED
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


# The default suite resumes runs ended by signals, below and in test_loop.py.
@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_resume_is_exact(tmp_path, dropout):
    """Six steps equal three steps, a new trainer and three more steps, bit for bit."""
    run(tmp_path / "whole", 6, dropout=dropout, save=3)
    training.set_seed(7)
    run(tmp_path / "parts", 3, dropout=dropout, total=6)
    training.set_seed(8)  # resuming must not depend on it
    run(tmp_path / "parts", 6, dropout=dropout)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_seed_determines_the_weights(tmp_path):
    def initial_kernel(seed):
        training.set_seed(seed)
        make_task = functools.partial(tasks.PretrainingTask, config())
        model = training.Trainer(make_task, one_device(), str(tmp_path)).model
        return training.checkpointing.weights(model)["bert/pooler/dense/kernel"].numpy()

    first = initial_kernel(1)
    np.testing.assert_array_equal(first, initial_kernel(1))
    assert np.abs(first - initial_kernel(2)).max() > 1e-3


@pytest.mark.slow
def test_seed_determines_the_run(tmp_path, record_paths):
    def train(name, seed):
        training.set_seed(seed)
        data = input_pipeline.TrainingInput(
            record_paths, records.PRETRAINING, {"S": 8, "P": 1}, 4, seed
        )
        run(tmp_path / name, 5, dropout=0.1, data=data)
        return tensors(tmp_path / name)["bert/pooler/dense/kernel"]

    first = train("a", 1)
    np.testing.assert_array_equal(first, train("b", 1))
    assert np.abs(first - train("c", 2)).max() > 1e-3


@pytest.fixture
def finished(plain_run, tmp_path):
    """A copy of a finished run of 20 steps."""
    return pathlib.Path(shutil.copytree(plain_run, tmp_path / "finished"))


def test_changed_batch_size_or_seed_is_logged(finished, record_paths, caplog):
    lengths = {"S": 8, "P": 1}
    data = input_pipeline.TrainingInput(record_paths, records.PRETRAINING, lengths, 8, 5)
    run(finished, 20, data=data)
    assert "`train_batch_size` changed from 4 to 8 since " in caplog.text
    assert "`seed` changed from 0 to 5 since " in caplog.text


def test_run_resumed_on_different_files_is_logged(finished, caplog):
    run(finished, 20)
    assert not caplog.text
    data = Batches()
    data.identity = [2, 150, 2**62 + 1]
    run(finished, 20, data=data)
    assert (
        "finished/model.ckpt-20 (from 1 with 100 bytes to 2 with 150 bytes): "
        "the remaining steps see different examples"
    ) in caplog.text


def test_run_resumed_with_a_different_optimizer(finished, caplog):
    for optimizer in (
        optimization.LAMB,
        functools.partial(optimization.AdamWeightDecay, bias_correction=True),
    ):
        with pytest.raises(
            bert_tf.UserError,
            match=r"^`optimizer`: .*model\.ckpt-20 was trained with AdamWeightDecay without bias "
            r"correction, but this run uses \w+ with bias correction; .* `init_checkpoint`",
        ):
            run(finished, 30, optimizer=optimizer)
    adam = optimization.AdamWeightDecay
    run(finished, 20, rate=0.5, optimizer=functools.partial(adam, name="mine"))
    assert not caplog.text
    run(finished, 20, optimizer=functools.partial(adam, weight_decay=0.2, beta_2=0.5))
    assert "the optimizer's weight_decay changed from 0.01 to 0.2 since " in (caplog.text)
    assert "the optimizer's beta_2 changed from 0.999 to 0.5 since " in caplog.text


def test_run_resumed_with_another_learning_rate_is_logged(finished, caplog):
    caplog.set_level("INFO")
    run(finished, 20)
    assert "changed from" not in caplog.text
    run(finished, 22, rate=0.5)
    assert "learning_rate changed from 0.001 to 0.5 since " in caplog.text
    assert "num_train_steps changed from 20 to 22 since " in caplog.text


def test_finished_run_is_not_trained_again(finished, caplog):
    caplog.set_level("INFO")
    before = tensors(finished)
    trainer = run(finished, 20, init="nowhere")
    assert "nothing to do" in caplog.text
    assert "`init_checkpoint` is not read" in caplog.text
    trainer.fit(Batches(), optimization.AdamWeightDecay(1e-3), 20)
    for name, value in tensors(finished).items():
        np.testing.assert_array_equal(value, before[name])
    (finished / "checkpoint").unlink()  # the checkpoint is found without this file
    caplog.clear()
    run(finished, 20)
    assert "nothing to do" in caplog.text


def test_weights_of_a_resumed_run_are_read_once(finished, monkeypatch):
    """If the same trainer trains again they are reread, since an error may have changed them."""
    reads = collections.Counter()
    read = checkpoints.ReleaseCheckpoint.tensor

    def counted(self, name):
        reads[name] += 1
        return read(self, name)

    monkeypatch.setattr(checkpoints.ReleaseCheckpoint, "tensor", counted)
    trainer = run(finished, 20)
    names = set(training.checkpointing.weights(trainer.model))
    moments = {name for name in reads if "/adam_" in name}
    assert moments and {reads[name] for name in names | moments} == {1}
    trainer.fit(Batches(), optimization.AdamWeightDecay(1e-3), 20)
    assert {reads[name] for name in names | moments} == {2}


@pytest.mark.slow
def test_a_run_with_a_schedule_of_keras_is_resumed_exactly(tmp_path):
    def make(_):
        return optimization.AdamWeightDecay(keras.optimizers.schedules.CosineDecay(1e-3, 6))

    run(tmp_path / "whole", 6, optimizer=make)
    training.set_seed(7)
    run(tmp_path / "parts", 3, optimizer=make)
    run(tmp_path / "parts", 6, optimizer=make)
    assert_same(tmp_path / "whole", tmp_path / "parts")


class Unregistered(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that Keras cannot deserialize."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / (1.0 + tf.cast(step, tf.float32))

    def get_config(self):
        return {"rate": self.rate}


class WithoutConfig(Unregistered):
    def get_config(self):
        return keras.optimizers.schedules.LearningRateSchedule.get_config(self)


def constant_rate():
    return 1e-3


@pytest.mark.parametrize(
    ("rate", "note"),
    [
        (Unregistered(np.float32(0.5)), "rate changed from 0.5 to None"),
        *(
            pytest.param(rate, f"name changed from {name} to None", marks=pytest.mark.slow)
            for name, rate in [
                ("WithoutConfig", WithoutConfig(0.5)),
                ("constant_rate", constant_rate),
                ("partial", functools.partial(float, 1e-3)),
            ]
        ),
    ],
)
def test_any_learning_rate_of_the_optimizer(rate, note, tmp_path, caplog):
    """The rate is used as given; resuming with a different rate is logged."""
    caplog.set_level("INFO", "bert_tf")
    optimizer = optimization.AdamWeightDecay(rate)
    run(tmp_path, 1, optimizer=lambda _: optimizer)
    assert f"learning_rate {float(optimizer.learning_rate_at(0)):.3g}" in caplog.text
    run(tmp_path, 1, optimizer=lambda _: optimizer)
    assert "changed from" not in caplog.text
    run(tmp_path, 1, optimizer=lambda _: optimization.AdamWeightDecay(1e-3))
    assert note in caplog.text


def test_warm_start_loads_the_weights_but_not_the_step(plain_run, tmp_path):
    trainer = run(tmp_path, 1, init=str(plain_run), rate=0.0)
    first, second = tensors(plain_run), tensors(tmp_path)
    assert second["global_step"] == 1
    name = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(first[name], second[name])

    # The variables are freed, so many seeds need the memory of one.
    handle = weakref.ref(trainer.model.trainable_variables[0].value.handle)
    del trainer
    gc.collect()
    assert handle() is None


def test_different_model_in_output_dir_is_an_error(tmp_path):
    weights = checkpoints.weights(tasks.PretrainingTask(config()).model)
    values = {name: variable.numpy() for name, variable in weights.items()}
    checkpoints.write(str(tmp_path / "model.ckpt-1"), {**values, "global_step": np.int64(1)})
    with pytest.raises(
        bert_tf.UserError, match=r"`output_dir`: output_\w+ is missing in .*model\.ckpt-1"
    ):
        training.Trainer(lambda: tasks.ClassificationTask(config(), 2), one_device(), str(tmp_path))


def test_folder_that_tensorflow_cannot_read_is_an_error(tmp_path):
    with pytest.raises(bert_tf.UserError, match=r"`output_dir`: .*run\[1\]"):
        run(tmp_path / "run[1]", 2)


def test_weights_are_required_to_predict(tmp_path):
    with pytest.raises(bert_tf.UserError, match=r"`output_dir`: .*`init_checkpoint`"):
        training.Trainer(
            lambda: tasks.PretrainingTask(config()),
            one_device(),
            str(tmp_path),
            must_be_trained=True,
        )


@pytest.mark.parametrize(
    ("make_task", "batch"),
    [
        (lambda: tasks.PretrainingTask(config()), Batches().make(1)),
        (lambda: tasks.ClassificationTask(config(), 3), LabeledBatches().make(1)),
    ],
)
def test_metric_names_are_those_of_the_metrics(make_task, batch):
    task = make_task()
    batch = {name: tf.constant(value) for name, value in batch.items()}
    predictions = task.predictions(task.model(batch), batch)
    metrics = task.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(metrics) == sorted(task.metric_names)
