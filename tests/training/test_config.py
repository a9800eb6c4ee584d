"""Training configurations: validation, and a flag for each field."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import training
from bert_tf.configs import (
    Config,
    DeviceConfig,
    FineTuneConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainingConfig,
    TrainConfig,
)
from bert_tf.optimization import make_optimizer
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tasks.registry import TASKS
from bert_tf.tokenization.settings import resolve_settings
from tests import scripts_alone


def test_number_of_steps():
    """The release rounds the product down rather than the number of batches per epoch."""
    assert TrainConfig(num_train_epochs=3.0).num_train_steps(3668, "examples") == 343
    with pytest.raises(bert_tf.UserError, match=r"`train_batch_size=32`.* 10 windows"):
        TrainConfig().num_train_steps(10, "windows")


class FourReplicas:
    num_replicas_in_sync = 4


@pytest.mark.parametrize(
    ("split", "size", "parts", "nearest"),
    [
        ("train", 30, 1, "28 or 32"),
        ("train", 32, 3, "24 or 36"),
        ("eval", 3, 1, "4"),
        ("predict", 6, 1, "4 or 8"),
    ],
)
def test_batch_sizes_divide_over_the_replicas(split, size, parts, nearest):
    """Only those that are used."""
    check = training.strategy.check_batch_sizes
    check(TrainConfig(), FourReplicas)
    config = TrainConfig(**{f"{split}_batch_size": size}, gradient_accumulation_steps=parts)
    check(config, FourReplicas, **{split: False})
    with pytest.raises(bert_tf.UserError, match=f"`{split}_batch_size={size}`.* {nearest}$"):
        check(config, FourReplicas, predict=split == "predict")


def test_optimizer_config(caplog):
    for name in bert_tf.optimization.OPTIMIZERS:
        assert make_optimizer(OptimizerConfig(name, layer_decay=0.9), 100).layer_decay == 0.9
    rate = make_optimizer(OptimizerConfig(learning_rate=1e-3), 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(5e-4)
    assert float(rate(50)) == pytest.approx(5e-4)
    config = OptimizerConfig(learning_rate=1e-3, num_warmup_steps=20)
    rate = make_optimizer(config, 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(2.5e-4)
    assert not caplog.text
    make_optimizer(OptimizerConfig(warmup_proportion=1.0), 100)
    assert "100 warm-up steps" in caplog.text


def test_xla_is_for_gpus(monkeypatch):
    one_device = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert training.strategy.use_xla(True, one_device, num_train_steps=1) is True
    tpu = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    assert training.strategy.use_xla(True, tpu) is False, "a TPU must not be asked to"
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    found = [training.strategy.use_xla(None, one_device, n) for n in (1999, 2000, None)]
    assert found == [False, True, True]


def test_explicit_files_win_over_those_of_the_model(monkeypatch):
    monkeypatch.setattr(bert_tf.checkpoints.resolver, "fetch", lambda name: f"{name}/checkpoint")
    config = ModelConfig(
        model="tiny", bert_config_file="mine", vocab_file="mine", do_lower_case=False
    )
    model_files = bert_tf.checkpoints.resolve(config)
    settings = resolve_settings(do_lower_case=False)
    expected = bert_tf.checkpoints.PretrainedFiles("tiny/checkpoint", "mine", "mine", settings)
    assert model_files == expected
    with pytest.raises(bert_tf.UserError, match="`vocab_file`"):
        bert_tf.checkpoints.resolve(ModelConfig(bert_config_file="a"))


# Only fine-tuning has flags for these.
FINE_TUNING = {
    "predict_batch_size",
    "num_train_epochs",
    "warmup_proportion",
    "pad_to_max_length",
    "bucket_by_length",
    "do_lower_case",
    "strip_accents",
    "tokenize_chinese_chars",
}
FINE_TUNING_SCRIPTS = {
    "run_classifier": "classification",
    "run_ner": "token_classification",
    "run_squad": "question_answering",
    "run_multiple_choice": "multiple_choice",
    "run_sentence_encoder": "sentence_embedding",
}


def list_options(config):
    """Yield (name, default as in --help) of each option of a `Config` and its nested configs."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Config):
            yield from list_options(value)
        elif field.metadata.get("help"):
            yield field.name, field.metadata["default"] if value is None else value


@pytest.mark.parametrize("script", [*FINE_TUNING_SCRIPTS, "run_pretraining"])
def test_each_option_has_a_flag_with_the_same_default(root, script, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported(script) as run:
        defaults = {flag.name: flag.default for flag in run.flags_of[script]}
    expected = dict(list_options(PretrainingConfig()))
    skipped = FINE_TUNING
    if script != "run_pretraining":
        task_config = TASKS[FINE_TUNING_SCRIPTS[script]].config_class()
        expected = dict(list_options(FineTuneConfig(task=task_config)))
        assert expected.keys() > {"max_seq_length", "skip_bad_rows"} or script == "run_squad"
        skipped = {"num_warmup_steps"}
        expected["do_lower_case"] = task_config.do_lower_case
    assert not skipped & defaults.keys()
    for name in expected.keys() - skipped:
        assert (defaults[name] or ()) == (expected[name] or ()), name


MODEL = ModelConfig(bert_config_file="none.json", vocab_file="none.txt")


def fine_tune(**values):
    task = values.pop("task", ClassificationConfig(task_name="tsv"))
    values = {"output_dir": "out", "model": MODEL, "do_train": True, **values}
    training.fine_tune(TASKS["classification"], FineTuneConfig(task=task, **values))


def pretrain(**values):
    values = {"output_dir": "out", "do_train": True, **values}
    training.pretrain(PretrainingConfig("in", model=MODEL, **values))


BOTH = (fine_tune, pretrain)
ON_TPU = DeviceConfig(use_tpu=True)


@pytest.mark.parametrize(
    ("runs", "values", "named"),
    [
        (BOTH, {"train": TrainConfig(num_train_epochs=float("nan"))}, "num_train_epochs=nan"),
        (BOTH, {"train": TrainConfig(train_batch_size=10**8)}, "train_batch_size=100000000"),
        (BOTH, {"train": TrainConfig(eval_batch_size=0)}, "eval_batch_size=0"),
        (BOTH, {"train": TrainConfig(seed=-1)}, "seed=-1"),
        (BOTH, {"train": TrainConfig(dtype="bf16")}, "dtype=bf16`.* float32, bfloat16"),
        (BOTH, {"train": TrainConfig(dtype="float16"), "device": ON_TPU}, "dtype=float16"),
        (BOTH, {"train": TrainConfig(best_metric="f1")}, "best_metric=f1`.*eval_steps"),
        (
            BOTH,
            {"train": TrainConfig(early_stopping_patience=2)},
            "early_stopping_patience`.*best_metric",
        ),
        (BOTH, {"do_train": False}, "do_train"),
        (BOTH, {"output_dir": None}, "output_dir"),
        (BOTH, {"device": DeviceConfig(num_tpu_cores=-1)}, "num_tpu_cores=-1"),
        (
            BOTH,
            {"device": DeviceConfig(distribution_strategy="mirored")},
            "distribution_strategy=mirored`.* auto, one_device, mirrored, multi_worker",
        ),
        (BOTH, {"optimizer": OptimizerConfig("adam")}, "optimizer=adam`.* bert_adam, adamw, lamb"),
        (BOTH, {"optimizer": OptimizerConfig(learning_rate=np.float64(-1))}, "learning_rate=-1.0"),
        (
            BOTH,
            {"optimizer": OptimizerConfig(warmup_proportion=0.2, num_warmup_steps=3)},
            "warmup_proportion`.*num_warmup_steps",
        ),
        ((fine_tune,), {"task": ClassificationConfig(header="maybe")}, "header=maybe"),
        ((pretrain,), {"objective": "mlm"}, "objective=mlm`.* nsp, sop, none"),
        ((pretrain,), {"num_train_steps": 9999999999}, "num_train_steps=9999999999"),
        ((pretrain,), {"masked_lm_prob": 0.3}, "masked_lm_prob`.*dynamic_masking"),
        ((pretrain,), {"num_input_streams": 5}, "num_input_streams=5`.*train_batch_size=32"),
        ((pretrain,), {"train": TrainConfig(num_train_epochs=2.0)}, "num_train_epochs"),
        ((pretrain,), {"train": TrainConfig(bucket_by_length=True)}, "bucket_by_length"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_read(
    runs, values, named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for run in runs:
        with pytest.raises(bert_tf.UserError, match=f"`{named}"):
            run(**values)
    assert not list(tmp_path.iterdir())


def test_eval_steps_without_training_is_logged(caplog):
    TrainConfig(best_metric="f1").check(do_train=False)  # evaluates the best checkpoint
    assert not caplog.text
    TrainConfig(eval_steps=5).check(do_train=False)
    assert "`eval_steps`" in caplog.text


def test_values_of_other_libraries_are_converted():
    config = TrainConfig(train_batch_size=np.int64(4), num_train_epochs=np.float32(2)).validate()
    assert type(config.train_batch_size) is int and type(config.num_train_epochs) is float
    assert TrainConfig(num_train_epochs=2).validate().num_train_epochs == 2
    assert FineTuneConfig(pathlib.Path("out")).validate().output_dir == "out"
    assert ClassificationConfig(labels=["x", "y"]).validate().labels == ("x", "y")
