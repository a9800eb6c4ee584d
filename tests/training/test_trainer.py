"""`Trainer`: it learns, resumes to the bit, warm-starts, evaluates, keeps the best checkpoint."""

import collections
import functools
import gc
import json
import os
import pathlib
import shutil
import signal
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
    assert results["masked_lm_accuracy"] > 0.5  # by chance 1 in 8
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


# By default runs that a signal ended are resumed, below and in test_loop.py.
@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_resume_is_exact(tmp_path, dropout):
    """Six steps equal three, a new trainer, and three more, to the bit."""
    run(tmp_path / "whole", 6, dropout=dropout, save=3)
    training.set_seed(7)
    run(tmp_path / "parts", 3, dropout=dropout, total=6)
    training.set_seed(8)  # a resumed run must not depend on it
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
    assert "model.ckpt-20 was trained with `train_batch_size=4`, now it is 8" in caplog.text
    assert "model.ckpt-20 was trained with `seed=0`, now it is 5" in caplog.text


def test_run_resumed_on_different_files_is_logged(finished, caplog):
    run(finished, 20)
    assert not caplog.text
    data = Batches()
    data.identity = [2, 150, 2**62 + 1]
    run(finished, 20, data=data)
    assert (
        "model.ckpt-20 was trained on different files (1 with 100 bytes, now 2 with 150 bytes): "
        "the remaining steps see different examples"
    ) in caplog.text


def test_run_resumed_with_a_different_optimizer(finished, caplog):
    for optimizer in (
        optimization.LAMB,
        functools.partial(optimization.AdamWeightDecay, bias_correction=True),
    ):
        with pytest.raises(
            bert_tf.UserError,
            match=r"^`optimizer`: .*model\.ckpt-20 was trained by AdamWeightDecay without bias "
            r"correction, now it is \w+ with bias correction; .* `init_checkpoint`",
        ):
            run(finished, 30, optimizer=optimizer)
    adam = optimization.AdamWeightDecay
    run(finished, 20, rate=0.5, optimizer=functools.partial(adam, name="mine"))
    assert not caplog.text
    run(finished, 20, optimizer=functools.partial(adam, weight_decay=0.2, beta_2=0.5))
    assert "model.ckpt-20 was trained with weight_decay=0.01 in the optimizer, now it is 0.2" in (
        caplog.text
    )
    assert "was trained with beta_2=0.999 in the optimizer, now it is 0.5" in caplog.text


def test_run_resumed_with_another_learning_rate_is_logged(finished, caplog):
    caplog.set_level("INFO")
    run(finished, 20)
    assert "was trained with" not in caplog.text
    run(finished, 22, rate=0.5)
    assert "model.ckpt-20 was trained with learning_rate=0.001, now it is 0.5" in caplog.text
    assert "model.ckpt-20 was trained with num_train_steps=20, now it is 22" in caplog.text


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
    """But once more if the same trainer trains again: an error may have left them half-way."""
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
        (Unregistered(np.float32(0.5)), "rate=0.5, now it is None"),
        *(
            pytest.param(rate, f"name={name}, now it is None", marks=pytest.mark.slow)
            for name, rate in [
                ("WithoutConfig", WithoutConfig(0.5)),
                ("constant_rate", constant_rate),
                ("partial", functools.partial(float, 1e-3)),
            ]
        ),
    ],
)
def test_any_learning_rate_of_the_optimizer(rate, note, tmp_path, caplog):
    """It is used as it is given; resuming with a different one is logged."""
    caplog.set_level("INFO", "bert_tf")
    optimizer = optimization.AdamWeightDecay(rate)
    run(tmp_path, 1, optimizer=lambda _: optimizer)
    assert f"learning_rate {float(optimizer.learning_rate_at(0)):.3g}" in caplog.text
    run(tmp_path, 1, optimizer=lambda _: optimizer)
    assert "was trained with" not in caplog.text
    run(tmp_path, 1, optimizer=lambda _: optimization.AdamWeightDecay(1e-3))
    assert note in caplog.text


def test_warm_start_loads_the_weights_but_not_the_step(plain_run, tmp_path):
    trainer = run(tmp_path, 1, init=str(plain_run), rate=0.0)
    first, second = tensors(plain_run), tensors(tmp_path)
    assert second["global_step"] == 1
    name = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(first[name], second[name])

    # What a variable of TensorFlow lives as long as: many seeds need the memory of one.
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


class ScriptedTask(tasks.PretrainingTask):
    """A task whose metrics are given by the test, evaluation by evaluation."""

    metric_names = ("accuracy", "loss")
    script = ()
    num_evaluations = 0

    def metrics(self, predictions):
        value = self.script[self.num_evaluations]
        self.num_evaluations += 1
        return {"accuracy": value, "loss": -value}


def run_scripted(output_dir, script, steps, start=0, **options):
    """Train with an evaluation every 2 steps; the first has the value `script[start]`."""
    training.set_seed(7)

    def make_task():
        task = ScriptedTask(config(0.1))
        task.script, task.num_evaluations = script, start
        return task

    trainer = training.Trainer(make_task, one_device(), str(output_dir))
    trainer.fit(
        Batches(),
        optimization.AdamWeightDecay(1e-3),
        steps,
        configs.TrainConfig(eval_steps=2, **options),
        SomeBatches(),
    )
    return trainer


def read_record(output_dir):
    return json.loads((output_dir / "best" / "best.json").read_text())


PATIENCE = {"best_metric": "accuracy", "early_stopping_patience": 2}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """The folder of a run that early stopping ended at step 8; the best is that of step 4."""
    folder = tmp_path_factory.mktemp("scripted")
    trainer = run_scripted(folder, [0.1, 0.5, 0.3, 0.4, 0.9], 100, **PATIENCE)
    assert trainer.step == 8
    return folder


def test_best_checkpoint_is_kept(scripted):
    expected = {"metric": "accuracy", "value": 0.5, "step": 4, "since": [6, 8]}
    expected["data"] = SomeBatches.identity
    assert read_record(scripted) == expected
    assert sorted(os.listdir(scripted / "best")) == [  # the run's folder has no config either
        "best.json",
        "checkpoint",
        "model.ckpt-4.data-00000-of-00001",
        "model.ckpt-4.index",
    ]
    at_4 = checkpoints.ReleaseCheckpoint(str(scripted / "model.ckpt-4"))
    best = tensors(scripted / "best")
    assert not any("adam" in name for name in best), "only weights are kept"
    for name, value in best.items():
        np.testing.assert_array_equal(value, at_4.tensor(name))
    trainer = training.Trainer(lambda: ScriptedTask(config(0.1)), one_device(), str(scripted))
    trainer.use_best("accuracy")
    assert trainer.step == 4
    weight = training.checkpointing.weights(trainer.model)["bert/pooler/dense/kernel"]
    np.testing.assert_array_equal(weight, best["bert/pooler/dense/kernel"])


@pytest.mark.slow
def test_best_loss_is_kept(tmp_path):
    script = [0.1, 0.5, 0.3, 0.5]
    run_scripted(tmp_path, script, 8, best_metric="loss", save_checkpoints_steps=4)
    expected = {"metric": "loss", "value": -0.5, "step": 4, "since": [6, 8]}
    expected["data"] = SomeBatches.identity
    assert read_record(tmp_path) == expected


def test_run_that_was_stopped_early_stays_stopped(scripted, caplog):
    caplog.set_level("INFO")
    run_scripted(scripted, [], 100, **PATIENCE)
    assert "nothing to do, the run is at step 8 and was stopped early" in caplog.text


@pytest.mark.slow
def test_different_development_data_start_over(tmp_path, monkeypatch):
    """For early stopping too; a finished run keeps its best checkpoint."""
    run_scripted(tmp_path, [0.8, 0.7, 0.6], 100, **PATIENCE)
    monkeypatch.setattr(SomeBatches, "identity", "other batches")
    assert run_scripted(tmp_path, [0.3, 0.5, 0.4, 0.3], 100, **PATIENCE).step == 12
    record = read_record(tmp_path)
    assert (record["step"], record["value"], record["since"]) == (8, 0.5, [10, 12])
    monkeypatch.setattr(SomeBatches, "identity", "yet other batches")
    run_scripted(tmp_path, [], 12, **PATIENCE)
    assert read_record(tmp_path) == record


@pytest.mark.slow
def test_best_checkpoint_survives_the_process(scripted, tmp_path):
    """A second trainer knows what the first one found, and when."""
    script = [0.1, 0.5, 0.3, 0.4, 0.9]
    run_scripted(tmp_path, script, 6, **PATIENCE)
    assert run_scripted(tmp_path, script, 100, start=3, **PATIENCE).step == 8
    assert_same(scripted, tmp_path)


def test_run_of_the_release_is_resumed(scripted, tmp_path, caplog):
    """Its folders have weights, moments and the step, but no state of bert_tf."""
    values = tensors(scripted)
    assert any(name.startswith("bert_tf/") for name in values)
    values = {name: x for name, x in values.items() if not name.startswith("bert_tf/")}
    checkpoints.write(str(tmp_path / "model.ckpt-8"), values)
    trainer = run_scripted(tmp_path, [0.1], 8)
    assert "model.ckpt-8 has no dropout state" in caplog.text
    assert trainer.step == 8


@pytest.mark.slow
def test_nan_is_not_the_best_and_ends_patience(tmp_path):
    script = [np.nan, 0.5, np.nan, 0.4]
    run_scripted(tmp_path / "some", script, 8, best_metric="accuracy")
    assert read_record(tmp_path / "some")["step"] == 4
    options = {"best_metric": "accuracy", "early_stopping_patience": 2}
    assert run_scripted(tmp_path / "none", [np.nan] * 9, 18, **options).step == 4


@pytest.mark.slow
def test_best_of_later_steps_is_forgotten_when_a_run_is_reset(tmp_path, caplog):
    options = {"best_metric": "accuracy", "save_checkpoints_steps": 2}
    run_scripted(tmp_path, [0.1, 0.2, 0.9], 6, **options)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    run_scripted(tmp_path, [0.1, 0.3, 0.2], 8, best_metric="accuracy")
    assert "is of step 6, but the run is at step 4" in caplog.text
    record = read_record(tmp_path)
    assert (record["step"], record["value"], record["since"]) == (6, 0.3, [8])


@pytest.mark.slow
def test_run_that_sigterm_stops_during_an_evaluation(scripted, tmp_path, monkeypatch):
    """The step was saved before; the resumed run begins with the evaluation and is the same."""
    evaluate = training.Trainer.evaluate

    def interrupted(self, *args, **kwargs):
        if self.task.num_evaluations == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *args, **kwargs)

    options = {**PATIENCE, "save_checkpoints_steps": 100}
    script = [0.1, 0.5, 0.3, 0.4, 0.9]
    with monkeypatch.context() as patch:
        patch.setattr(training.Trainer, "evaluate", interrupted)
        with pytest.raises(bert_tf.errors.Stopped, match="SIGTERM at step 4") as stopped:
            run_scripted(tmp_path, script, 100, **options)
    assert stopped.value.status == 75
    assert tensors(tmp_path)["global_step"] == 4
    assert read_record(tmp_path)["step"] == 2
    run_scripted(tmp_path, script, 100, start=1, **options)
    assert read_record(tmp_path) == read_record(scripted)
    assert_same(scripted, tmp_path)
    assert_same(scripted / "best", tmp_path / "best")


@pytest.mark.slow
def test_evaluation_does_not_change_the_training(scripted, tmp_path):
    trainer = training.Trainer(
        lambda: tasks.PretrainingTask(config(0.1)), one_device(), str(tmp_path)
    )
    trainer.fit(Batches(), optimization.AdamWeightDecay(1e-3), 8)
    assert_same(scripted, tmp_path)
    steps = {
        event.step
        for path in (scripted / "eval").iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        if event.summary.value
    }
    assert steps == {2, 4, 6, 8}


def test_metrics_are_checked_before_training(tmp_path):
    with pytest.raises(bert_tf.UserError, match=r"`best_metric`: f1 .*accuracy, loss"):
        run_scripted(tmp_path, [], 4, best_metric="f1")
    (tmp_path / "best").mkdir()
    record = {"metric": "loss", "value": 0.1, "step": 2, "since": []}
    (tmp_path / "best" / "best.json").write_text(json.dumps(record))
    with pytest.raises(bert_tf.UserError, match=r"`best_metric=accuracy`.*best by 'loss'"):
        run_scripted(tmp_path, [0.1, 0.2], 8, best_metric="accuracy")


def test_missing_best_checkpoint_is_an_error(tmp_path):
    trainer = training.Trainer(lambda: ScriptedTask(config()), one_device(), str(tmp_path))
    with pytest.raises(bert_tf.UserError, match=r"`best_metric`: .*best has no checkpoint"):
        trainer.use_best("accuracy")
    with pytest.raises(bert_tf.UserError, match=r"`best_metric`: f1 is not a metric.*accuracy"):
        trainer.use_best("f1")


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
