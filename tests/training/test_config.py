"""The configuration of a run: its checks, and that the scripts have a flag for each field."""

import dataclasses

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import tasks, training
from bert_tf.configs import (
    DeviceConfig,
    FineTuneConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainingConfig,
    TrainConfig,
)
from bert_tf.optimization import make_optimizer
from bert_tf.tokenization.settings import resolve_settings
from tests import scripts_alone
from tests.common import TINY

SPEC = tasks.TASKS["classification"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"best_metric": "f1"}, "`best_metric=f1` requires `eval_steps`"),
        ({"early_stopping_patience": 2}, "`early_stopping_patience` requires `best_metric`"),
    ],
)
def test_train_config(values, message):
    with pytest.raises(bert_tf.UserError, match=message):
        TrainConfig(**values).check()
    TrainConfig(best_metric="f1", eval_steps=5, early_stopping_patience=2).check()
    TrainConfig(best_metric="f1").check(do_train=False)  # evaluates the best checkpoint


def test_eval_steps_without_training_is_logged(caplog):
    TrainConfig(eval_steps=5).check(do_train=False)
    assert "`eval_steps` has no effect without `do_train`" in caplog.text


def test_number_of_frozen_layers():
    TrainConfig(num_frozen_layers=2).check_frozen_layers(TINY)
    with pytest.raises(bert_tf.UserError, match=r"`num_frozen_layers=3`.* 2 layers"):
        TrainConfig(num_frozen_layers=3).check_frozen_layers(TINY)


def test_number_of_steps():
    """The release rounds the product down, and not the number of batches of an epoch."""
    assert TrainConfig(num_train_epochs=3.0).num_train_steps(3668, "examples") == 343
    with pytest.raises(bert_tf.UserError, match=r"^10 windows for 3\.0 .*`train_batch_size=32`"):
        TrainConfig().num_train_steps(10, "windows")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_train_epochs": float("nan")}, "`num_train_epochs=nan`: expected a finite number"),
        ({"num_train_epochs": float("inf")}, "`num_train_epochs=inf`: expected a finite number"),
        ({"train_batch_size": 10**8}, "`train_batch_size=100000000`: .* at most 1048576"),
        ({"eval_batch_size": 0}, "`eval_batch_size=0`: .* at least 1"),
        ({"seed": -1}, "`seed=-1`: .* at least 0"),
    ],
)
def test_numbers_out_of_bounds(values, message):
    train = TrainConfig(**values)
    with pytest.raises(bert_tf.UserError, match=message):
        FineTuneConfig("out", None, train=train, do_train=True).check(SPEC)
    with pytest.raises(bert_tf.UserError, match=message):
        training.pretrain(PretrainingConfig("in", "out", train=train, do_train=True))


def test_more_steps_than_tensorflow_counts():
    with pytest.raises(bert_tf.UserError, match=r"`num_train_epochs=1e\+300` would be .* steps"):
        TrainConfig(num_train_epochs=1e300).num_train_steps(100, "examples")


def test_dtype_policy():
    assert TrainConfig().dtype_policy == "float32"
    assert TrainConfig(dtype="bfloat16").dtype_policy == "mixed_bfloat16"
    DeviceConfig(use_tpu=True).check_dtype("bfloat16")
    DeviceConfig().check_dtype("float16")
    with pytest.raises(bert_tf.UserError, match="`dtype=float16`: TPU"):
        DeviceConfig(use_tpu=True).check_dtype("float16")


class FourReplicas:
    num_replicas_in_sync = 4


def test_batch_size_of_a_replica():
    assert training.per_replica(32, FourReplicas, "train_batch_size") == 8
    with pytest.raises(bert_tf.UserError, match=r"`train_batch_size=30`.* 28 or 32$"):
        training.per_replica(30, FourReplicas, "train_batch_size")
    with pytest.raises(bert_tf.UserError, match=r"`eval_batch_size=3`.* 4$"):
        training.per_replica(3, FourReplicas, "eval_batch_size")
    with pytest.raises(
        bert_tf.UserError, match=r"`gradient_accumulation_steps=3`.* nearest .*: 24 or 36$"
    ):
        training.per_replica(32, FourReplicas, "train_batch_size", parts=3)


@pytest.mark.parametrize("split", ["train", "eval", "predict"])
def test_only_batch_sizes_that_are_used_are_checked(split):
    config = TrainConfig(**{f"{split}_batch_size": 6})
    training.strategy.check_batch_sizes(config, FourReplicas, **{split: False})
    with pytest.raises(bert_tf.UserError, match=f"`{split}_batch_size=6`.* 4 or 8$"):
        training.strategy.check_batch_sizes(config, FourReplicas)


def test_optimizer_config(caplog):
    assert isinstance(make_optimizer(OptimizerConfig(), 100), bert_tf.optimization.AdamWeightDecay)
    for name in bert_tf.optimization.OPTIMIZERS:
        assert make_optimizer(OptimizerConfig(name, layer_decay=0.9), 100).layer_decay == 0.9
    rate = make_optimizer(OptimizerConfig(learning_rate=1e-3), 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(5e-4)
    assert float(rate(50)) == pytest.approx(5e-4)
    rate = make_optimizer(
        OptimizerConfig(learning_rate=1e-3), 100, num_warmup_steps=20
    ).learning_rate_at
    assert float(rate(5)) == pytest.approx(2.5e-4)
    assert not caplog.text
    make_optimizer(OptimizerConfig(warmup_proportion=1.0), 100)
    assert "100 warm-up steps are not less than 100 training steps" in caplog.text


def test_a_schedule_of_keras(monkeypatch):
    """Another schedule is one entry of the table."""

    def cosine(rate, steps, warmup):
        return keras.optimizers.schedules.CosineDecay(
            0.0, steps - warmup, warmup_target=rate, warmup_steps=warmup
        )

    monkeypatch.setitem(bert_tf.optimization.SCHEDULES, "linear", cosine)
    rate = make_optimizer(OptimizerConfig(learning_rate=1e-3), 100).learning_rate_at
    assert [float(rate(step)) for step in (5, 10, 55)] == pytest.approx([5e-4, 1e-3, 5e-4])


def test_xla_is_for_gpus(monkeypatch):
    one_device = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert training.use_xla(None, one_device) is bool(tf.config.list_logical_devices("GPU"))
    assert training.use_xla(True, one_device, num_train_steps=1) is True
    tpu = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    assert training.use_xla(True, tpu) is False, "a TPU must not be asked to"
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    assert [training.use_xla(None, one_device, n) for n in (1999, 2000, None)] == [
        False,
        True,
        True,
    ]


def test_model_config(monkeypatch):
    with pytest.raises(bert_tf.UserError, match="`vocab_file` or `model`"):
        bert_tf.checkpoints.resolve(ModelConfig(bert_config_file="a"))
    monkeypatch.setattr(bert_tf.checkpoints.resolver, "fetch", lambda name: f"{name}/checkpoint")
    config = ModelConfig(
        model="tiny", bert_config_file="mine", vocab_file="mine", do_lower_case=False
    )
    model_files = bert_tf.checkpoints.resolve(config)
    settings = resolve_settings(do_lower_case=False)
    expected = bert_tf.checkpoints.PretrainedFiles("tiny/checkpoint", "mine", "mine", settings)
    assert model_files == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "`do_train`, `do_eval` and `do_predict`"),
        ({"do_train": True, "train": TrainConfig(best_metric="f1")}, "requires `eval_steps`"),
        (
            {
                "do_eval": True,
                "train": TrainConfig(dtype="float16"),
                "device": DeviceConfig(use_tpu=True),
            },
            "`dtype=float16`",
        ),
        ({"do_train": True, "teacher_dir": "out"}, "`teacher_dir`: .*its own teacher"),
        ({"do_train": True, "teacher_dir": "out/best/"}, "`teacher_dir`: .*its own teacher"),
    ],
)
def test_fine_tune_config(values, message):
    with pytest.raises(bert_tf.UserError, match=message):
        FineTuneConfig("out/", None, **values).check(SPEC)


def test_only_some_tasks_have_teachers():
    spec = tasks.TASKS["question_answering"]
    with pytest.raises(bert_tf.UserError, match=r"`teacher_dir`.* question_answering"):
        FineTuneConfig("out", None, do_train=True, teacher_dir="other").check(spec)


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"do_train": True, "num_seeds": 2}, "`num_seeds` without `do_eval`"),
        ({"do_eval": True, "teacher_dir": "other"}, "`teacher_dir` has no effect"),
        ({"do_eval": True, "train": TrainConfig(eval_steps=3)}, "`eval_steps` has no effect"),
    ],
)
def test_options_without_effect_are_logged(values, argument, caplog):
    FineTuneConfig("out", None, **values).check(SPEC)
    assert argument in caplog.text


def test_parts():
    assert FineTuneConfig("out", None, do_train=True).parts == {"train"}
    assert FineTuneConfig("out", None, do_eval=True, do_predict=True).parts == {"dev", "test"}
    train = TrainConfig(eval_steps=3)
    assert FineTuneConfig("out", None, train=train, do_train=True).parts == {"train", "dev"}


# Their flags have a default, but None stands for a flag that is not given.
NONE_WITHOUT_FLAG = {"do_lower_case", "masked_lm_prob"}
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
FINE_TUNING_SCRIPTS = ("run_classifier", "run_ner", "run_squad", "run_multiple_choice")


@pytest.mark.parametrize("script", [*FINE_TUNING_SCRIPTS, "run_pretraining"])
def test_each_field_has_a_flag_with_the_same_default(root, script, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported(script) as run:
        defaults = {flag.name: flag.default for flag in run.flags_of[script]}
    is_pretraining = script == "run_pretraining"
    config_class = PretrainingConfig if is_pretraining else FineTuneConfig
    # The nested configs, and `task`, whose fields are tested with its task.
    without_flags = {"task", "model", "train", "optimizer", "device", "distillation"}
    fields = [x for x in dataclasses.fields(config_class) if x.name not in without_flags]
    without_flags = FINE_TUNING if is_pretraining else set()
    for nested_class in (ModelConfig, TrainConfig, OptimizerConfig, DeviceConfig):
        fields += [x for x in dataclasses.fields(nested_class) if x.name not in without_flags]
    for field in fields:
        if field.name.startswith("teacher_") and script != "run_classifier":
            assert field.name not in defaults
            continue
        default = None if field.default is dataclasses.MISSING else field.default
        if field.name in NONE_WITHOUT_FLAG:
            assert default is None
        else:
            assert defaults[field.name] == default, field.name
