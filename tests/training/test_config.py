"""Training configurations: validation, and a flag for each field."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import tasks, training
from bert_tf.cli import usage
from bert_tf.configs import (
    Config,
    DeviceConfig,
    ExportConfig,
    FineTuneConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainingConfig,
    PretrainingDataConfig,
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
        TrainConfig(**values).validate().check()
    TrainConfig(best_metric="f1", eval_steps=5, early_stopping_patience=2).check()
    TrainConfig(best_metric="f1").check(do_train=False)  # evaluates the best checkpoint


def test_eval_steps_without_training_is_logged(caplog):
    TrainConfig(eval_steps=5).check(do_train=False)
    assert "`eval_steps` has no effect without `do_train`" in caplog.text


def test_number_of_frozen_layers():
    TrainConfig(num_frozen_layers=2).check_frozen_layers(TINY)
    with pytest.raises(bert_tf.UserError, match=r"`num_frozen_layers=3`: expected at most 2"):
        TrainConfig(num_frozen_layers=3).check_frozen_layers(TINY)


def test_number_of_steps():
    """The release rounds the product down rather than the number of batches per epoch."""
    assert TrainConfig(num_train_epochs=3.0).num_train_steps(3668, "examples") == 343
    with pytest.raises(bert_tf.UserError, match=r"`train_batch_size=32`: found only 10 windows "):
        TrainConfig().num_train_steps(10, "windows")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_train_epochs": float("nan")}, "`num_train_epochs=nan`: expected a finite number"),
        ({"num_train_epochs": float("inf")}, "`num_train_epochs=inf`: expected a finite number"),
        ({"train_batch_size": 10**8}, "`train_batch_size=100000000`: .* 1 and 1048576"),
        ({"eval_batch_size": 0}, "`eval_batch_size=0`: .* integer between 1 and"),
        ({"seed": -1}, "`seed=-1`: .* integer between 0 and"),
    ],
)
def test_numbers_out_of_bounds(values, message):
    train = TrainConfig(**values)
    with pytest.raises(bert_tf.UserError, match=message):
        FineTuneConfig("out", None, train=train, do_train=True).check()
    with pytest.raises(bert_tf.UserError, match=message):
        training.pretrain(PretrainingConfig("in", "out", train=train, do_train=True))


def test_more_steps_than_tensorflow_counts():
    with pytest.raises(bert_tf.UserError, match=r"`num_train_epochs=1e\+300` requires .* steps"):
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
    with pytest.raises(bert_tf.UserError, match=r"`gradient_accumulation_steps=3`; use 24 or 36$"):
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
    config = OptimizerConfig(learning_rate=1e-3, num_warmup_steps=20)
    rate = make_optimizer(config, 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(2.5e-4)
    assert not caplog.text
    make_optimizer(OptimizerConfig(warmup_proportion=1.0), 100)
    assert "found 100 warm-up steps, expected fewer than the 100 training steps" in caplog.text


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
    ],
)
def test_fine_tune_config(values, message):
    with pytest.raises(bert_tf.UserError, match=message):
        FineTuneConfig("out/", None, **values).check()


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"do_eval": True, "train": TrainConfig(eval_steps=3)}, "`eval_steps` has no effect"),
    ],
)
def test_options_without_effect_are_logged(values, argument, caplog):
    FineTuneConfig("out", None, **values).check()
    assert argument in caplog.text


def test_parts():
    assert FineTuneConfig("out", None, do_train=True).splits == {"train"}
    assert FineTuneConfig("out", None, do_eval=True, do_predict=True).splits == {"dev", "test"}
    train = TrainConfig(eval_steps=3)
    assert FineTuneConfig("out", None, train=train, do_train=True).splits == {"train", "dev"}


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
        task_config = tasks.TASKS[FINE_TUNING_SCRIPTS[script]].config_class()
        expected = dict(list_options(FineTuneConfig(task=task_config)))
        assert expected.keys() > {"max_seq_length", "skip_bad_rows"} or script == "run_squad"
        skipped = {"num_warmup_steps"}
        expected["do_lower_case"] = task_config.do_lower_case
    assert not skipped & defaults.keys()
    for name in expected.keys() - skipped:
        assert (defaults[name] or ()) == (expected[name] or ()), name


def test_titles_of_help_have_options():
    specs = [tasks.TASKS[name] for name in FINE_TUNING_SCRIPTS.values()]
    configs = [FineTuneConfig(task=spec.config_class()) for spec in specs]
    configs += [PretrainingConfig(), PretrainingDataConfig(), ExportConfig()]
    options = {name for config in configs for name, _ in list_options(config)}
    for config in configs:
        for x in [config, *vars(config).values()]:
            for title, names in getattr(x, "GROUPS", ()):
                assert title in usage._TITLES and set(names.split()) <= options, title


MODEL = ModelConfig(bert_config_file="none.json", vocab_file="none.txt")


def fine_tune(**values):
    task = values.pop("task", tasks.ClassificationConfig(task_name="tsv"))
    values = {"output_dir": "out", "model": MODEL, "do_train": True, **values}
    config = FineTuneConfig(task=task, **values)
    training.fine_tune(SPEC, config)


def pretrain(**values):
    values = {"output_dir": "out", "do_train": True, **values}
    training.pretrain(PretrainingConfig("in", model=MODEL, **values))


@pytest.mark.parametrize(
    ("run", "values", "message"),
    [
        (fine_tune, {"device": DeviceConfig(distribution_strategy="mirored")},
         "`distribution_strategy=mirored`: expected one of auto, one_device, mirrored, multi"),
        (fine_tune, {"task": tasks.ClassificationConfig(long_documents="window")},
         "`long_documents=window`: expected one of truncate, windows"),
        (fine_tune, {"optimizer": OptimizerConfig("adam")},
         "`optimizer=adam`: expected one of bert_adam, adamw, lamb"),
        (fine_tune, {"train": TrainConfig(dtype="bf16")}, "`dtype=bf16`: expected one of float32"),
        (fine_tune, {"do_train": "false"}, "`do_train='false'`: expected true or false"),
        (fine_tune, {"train": TrainConfig(xla="no")}, "`xla='no'`: expected true or false"),
        (
            fine_tune,
            {"model": ModelConfig(do_lower_case="no")},
            "`do_lower_case='no'`: expected true or false",
        ),
        (
            fine_tune,
            {"optimizer": OptimizerConfig(learning_rate=np.float64(-1))},
            r"`learning_rate=-1\.0`: expected a finite number of at least 0",
        ),
        (
            fine_tune,
            {"task": tasks.ClassificationConfig(header="maybe")},
            "`header=maybe`: expected one of auto, yes, no",
        ),
        (
            fine_tune,
            {"task": tasks.TokenClassificationConfig(tag_scheme="bio")},
            "`tag_scheme=bio`: expected one of iob1, iob2, iobes, none",
        ),
        (
            fine_tune,
            {"train": TrainConfig(train_batch_size="8")},
            "`train_batch_size='8'`: expected an integer between 1",
        ),
        (
            fine_tune,
            {"train": TrainConfig(seed=1.5)},
            r"`seed=1\.5`: expected an integer",
        ),
        (fine_tune, {"output_dir": None}, "`output_dir` must be given"),
        (fine_tune, {"output_dir": "a\0"}, "`output_dir='a.x00'`: found a null character"),
        (pretrain, {"objective": "mlm"}, "`objective=mlm`: expected one of nsp, sop, none"),
        (pretrain, {"output_dir": None}, "`output_dir` must be given"),
        (
            pretrain,
            {"num_train_steps": 9999999999},
            "`num_train_steps=9999999999`: expected an integer between 1 and 2147483647",
        ),
        (fine_tune, {"do_train": 1}, "`do_train=1`: expected true or false"),
        (fine_tune, {"task": "mrpc"}, "`task='mrpc'`: expected a Config"),
        (fine_tune, {"train": {"seed": 1}}, "`train={'seed': 1}`: expected a TrainConfig"),
        (fine_tune, {"train": TrainConfig(train_batch_size=True)},
         "`train_batch_size=True`: expected an integer between 1"),
        (fine_tune, {"device": DeviceConfig(num_tpu_cores=-1)},
         "`num_tpu_cores=-1`: expected an integer of at least 1"),
        (fine_tune, {"task": tasks.ClassificationConfig(labels="a,b")},
         "`labels='a,b'`: expected a list, each element a string"),
        (fine_tune, {"task": tasks.ClassificationConfig(text_columns=(0, 1))},
         r"`text_columns=\(0, 1\)`: expected a list, each element a string"),
        (pretrain, {"optimizer": OptimizerConfig(num_warmup_steps=1.5)},
         "`num_warmup_steps=1.5`: expected an integer of at least 0"),
        (pretrain, {"objective": "nps"}, "`objective=nps`: expected one of nsp, sop, none"),
        (pretrain, {"masked_lm_prob": 0.3}, "`masked_lm_prob` requires `dynamic_masking`"),
        (pretrain, {"train": TrainConfig(num_train_epochs=2.0)},
         "`num_train_epochs` has no effect in pre-training"),
        (pretrain, {"num_input_streams": 5}, "`num_input_streams=5`: .*`train_batch_size=32`"),
        (pretrain, {"train": TrainConfig(bucket_by_length=True)},
         "`bucket_by_length` has no effect in pre-training"),
        (pretrain, {"optimizer": OptimizerConfig(warmup_proportion=0.2, num_warmup_steps=3)},
         "`warmup_proportion` cannot be combined with `num_warmup_steps`"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_before_anything_is_read(
    run, values, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bert_tf.UserError, match=f"^{message}"):
        run(**values)
    assert not list(tmp_path.iterdir())


def test_required_options():
    for config, name in ((FineTuneConfig(), "output_dir"), (PretrainingConfig(), "input_file")):
        with pytest.raises(bert_tf.UserError, match=f"`{name}` must be given"):
            config.validate()


def test_values_of_other_libraries_are_converted():
    config = TrainConfig(train_batch_size=np.int64(4), num_train_epochs=np.float32(2)).validate()
    assert type(config.train_batch_size) is int and type(config.num_train_epochs) is float
    assert TrainConfig(num_train_epochs=2).validate().num_train_epochs == 2
    assert FineTuneConfig(pathlib.Path("out")).validate().output_dir == "out"
    assert tasks.ClassificationConfig(labels=["x", "y"]).validate().labels == ("x", "y")


def test_help_is_in_the_docstrings():
    for config_class in (FineTuneConfig, PretrainingConfig, tasks.ClassificationConfig):
        for field in dataclasses.fields(config_class):
            if field.metadata.get("help"):
                assert f"\n  {field.name}: {field.metadata['help'][:20]}" in config_class.__doc__
