"""`Loop` learns, resumes exactly, warm-starts and evaluates."""

import functools
import gc
import pathlib
import shutil
import types
import weakref

import keras
import numpy as np
import pytest
from keras.optimizers.schedules import CosineDecay

import bert_tf
from bert_tf import checkpoints, configs, optimization, training
from bert_tf.data import input_pipeline, records
from bert_tf.device_check.checks import RECORDED, recorded_batch
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.question_answering.objective import QuestionAnsweringObjective
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.training.pretraining import PretrainingObjective
from tests.training.training_helpers import (
    Batches,
    assert_same,
    config,
    make_adam,
    one_device,
    run,
    tensors,
)


@pytest.mark.parametrize(
    ("mask_padding", "xla", "expected"),
    [(True, None, True), (False, None, False), (True, True, False)],
)
def test_padding_is_left_out_where_nothing_reads_it(tmp_path, mask_padding, xla, expected):
    task_config = QuestionAnsweringConfig(config(), n_best_size=2, max_answer_length=3)

    def make_objective():
        model = bert_tf.BertSpanLabeler(config())
        return QuestionAnsweringObjective(model, task_config, mask_padding=mask_padding)

    loop = training.Loop(make_objective, training.TensorFlowEngine(one_device()), str(tmp_path))
    assert loop.model.skip_padding is mask_padding
    with pytest.raises(AttributeError):  # there are no data
        loop.train(None, make_adam(loop), 10, configs.TrainConfig(xla=xla))
    assert loop.model.skip_padding is expected


def test_losses_equal_the_release():
    tiny, batch, golden = recorded_batch()
    objective = PretrainingObjective(tiny)
    checkpoints.warm_start(objective.model, str(RECORDED / "bert_model.ckpt"))
    outputs = objective.model(batch)
    losses = objective.losses(outputs, batch, objective.denominators(batch))
    results = objective.metrics(
        {k: v.numpy() for k, v in objective.predictions(outputs, batch).items()}
    )
    assert sorted(results) == sorted(objective.metric_names)
    for name in ("masked_lm_loss", "next_sentence_loss"):
        np.testing.assert_allclose(losses[name], golden[name], atol=2e-5)
        np.testing.assert_allclose(results[name], golden[name], atol=2e-5)


# The default suite resumes runs ended by signals, below and in test_loop.py.
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dropout": 0.1},
        {"dropout": 0.1, "dtype": "mixed_float16"},
        {"optimizer": lambda _: optimization.AdamWeightDecay(CosineDecay(1e-3, 6))},
    ],
    ids=["plain", "dropout", "float16", "schedule of Keras"],
)
def test_resume_is_exact(tmp_path, options):
    """Six steps equal three steps, a new trainer and three more steps, bit for bit."""
    run(tmp_path / "whole", 6, save=3, **options)
    keras.utils.set_random_seed(7)
    run(tmp_path / "parts", 3, total=6, **options)
    keras.utils.set_random_seed(8)  # resuming must not depend on it
    run(tmp_path / "parts", 6, **options)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    if "dtype" in options:
        # One step overflowed, so the scale is not the initial one.
        assert tensors(tmp_path / "parts")["bert_tf/loss_scale"] == 2.0**14
        assert tensors(tmp_path / "parts")["bert_tf/good_steps"] == 5


@pytest.fixture
def finished(plain_run, tmp_path):
    """A copy of a finished run of 20 steps."""
    return pathlib.Path(shutil.copytree(plain_run, tmp_path / "finished"))


def test_changed_options_of_a_resumed_run_are_logged(finished, record_paths, caplog, monkeypatch):
    caplog.set_level("INFO", "bert_tf")
    run(finished, 20)
    assert "changed from" not in caplog.text
    lengths = {"S": 8, "P": 1}
    data = input_pipeline.TrainingInput(record_paths, records.PRETRAINING, lengths, 8, 5)
    run(finished, 20, data=data)
    other_files = Batches()
    other_files.fingerprint = [2, 150, 2**62 + 1]
    other_files.masking = types.SimpleNamespace(identity=[0.2, 0])
    run(finished, 20, data=other_files, dtype="mixed_bfloat16")
    monkeypatch.setattr(PretrainingObjective, "key", {"class_weights": (1.0, 2.0)})
    adam = functools.partial(optimization.AdamWeightDecay, weight_decay=0.2, name="mine")
    run(finished, 20, total=22, rate=0.5, optimizer=adam, num_frozen_layers=1)
    for change in (
        "`train_batch_size` changed from 4 to 8",
        "`seed` changed from 0 to 5",
        "(from 1 with 100 bytes to 2 with 150 bytes)",
        "`masked_lm_prob` changed from None to 0.2",
        "`dtype` changed from float32 to bfloat16",
        "`class_weights` changed from None to [1.0, 2.0]",
        "`num_frozen_layers` changed from 0 to 1",
        "`weight_decay` changed from 0.01 to 0.2",
        "`learning_rate` changed from 0.001 to 0.5",
        "`num_train_steps` changed from 20 to 22",
    ):
        assert change in caplog.text


def test_run_resumed_with_a_different_optimizer_is_an_error(finished):
    adam = optimization.AdamWeightDecay
    for optimizer in (optimization.LAMB, functools.partial(adam, bias_correction=True)):
        with pytest.raises(bert_tf.UserError, match=r"`optimizer`: .*ckpt-20"):
            run(finished, 30, optimizer=optimizer)


def test_finished_run_is_not_trained_again(finished, caplog):
    caplog.set_level("INFO")
    before = tensors(finished)
    loop = run(finished, 20, init="nowhere")
    assert "nothing to do" in caplog.text
    assert "`init_checkpoint` is not read" in caplog.text
    loop.train(Batches(), make_adam(loop), 20)
    for name, value in tensors(finished).items():
        np.testing.assert_array_equal(value, before[name])
    (finished / "checkpoint").unlink()  # the checkpoint is found without this file
    caplog.clear()
    run(finished, 20)
    assert "nothing to do" in caplog.text


@pytest.mark.slow
def test_warm_start_loads_the_weights_but_not_the_step(plain_run, tmp_path):
    def make_objective():
        return PretrainingObjective(config())

    loop = training.Loop(
        make_objective, training.TensorFlowEngine(one_device()), str(tmp_path), str(plain_run)
    )
    optimizer = make_adam(loop, 0.0)
    loop.train(Batches(), optimizer, 1)
    first, second = tensors(plain_run), tensors(tmp_path)
    assert second["global_step"] == 1
    name = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(first[name], second[name])

    # The moments are freed before the evaluation.
    handle = weakref.ref(next(iter(optimizer.slots.values())).handle)
    del optimizer
    gc.collect()
    assert handle() is None

    # The variables are freed, so many seeds need the memory of one.
    handle = weakref.ref(loop.model.trainable_variables[0].value.handle)
    del loop
    gc.collect()
    assert handle() is None


def test_unusable_output_dir_is_an_error(tmp_path):
    """It has a different model, or none although one is required, or brackets in its name."""
    weights = checkpoints.weights(PretrainingObjective(config()).model)
    values = {name: variable.numpy() for name, variable in weights.items()}
    checkpoints.write(str(tmp_path / "model.ckpt-1"), {**values, "global_step": np.int64(1)})
    for folder, options, message in (
        ("", {}, r"output_\w+ is missing in .*model\.ckpt-1"),
        ("new", {"must_be_trained": True}, "`init_checkpoint`"),
        ("run[1]", {}, r"run\[1\]"),
    ):
        with pytest.raises(bert_tf.UserError, match=f"`output_dir`: .*{message}"):
            training.Loop(
                lambda: ClassificationObjective(bert_tf.BertClassifier(config(), 2)),
                training.TensorFlowEngine(one_device()),
                str(tmp_path / folder),
                **options,
            )
