"""Training configurations: validation, and what they resolve to."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, training
from bert_tf.optimization import make_optimizer
from bert_tf.tasks.classification.options import ClassificationConfig, ClassificationData
from bert_tf.tokenization.settings import resolve_settings
from bert_tf.training.run import Run
from tests.training.training_helpers import mirrored


def test_number_of_steps():
    """The release rounds the product down rather than the number of batches per epoch."""
    assert configs.TrainConfig(num_train_epochs=3.0).num_train_steps(3668, "examples") == 343
    with pytest.raises(bert_tf.UserError, match=r"`train_batch_size=32`.* 10 windows"):
        configs.TrainConfig().num_train_steps(10, "windows")


@pytest.mark.parametrize(("size", "parts", "nearest"), [(30, 1, "28 or 32"), (32, 3, "24 or 36")])
def test_training_batches_divide_over_the_replicas(size, parts, nearest):
    """Batches of evaluation and prediction are filled up."""
    train = configs.TrainConfig(size, 3, 6, gradient_accumulation_steps=parts)

    def start(**actions):
        config = configs.FineTuneConfig("out", ClassificationData(), train=train, **actions)
        Run(config, None, training.TensorFlowEngine(mirrored(4)), (), None)

    start(do_eval=True, do_predict=True)
    with pytest.raises(bert_tf.UserError, match=f"`train_batch_size={size}`.* {nearest}$"):
        start(do_train=True)


def test_optimizer_config(caplog):
    for name in bert_tf.optimization.OPTIMIZERS:
        config = configs.OptimizerConfig(name, layer_decay=0.9)
        assert make_optimizer(config, 100).layer_decay == 0.9
    rate = make_optimizer(configs.OptimizerConfig(learning_rate=1e-3), 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(5e-4)
    assert float(rate(50)) == pytest.approx(5e-4)
    config = configs.OptimizerConfig(learning_rate=1e-3, num_warmup_steps=20)
    rate = make_optimizer(config, 100).learning_rate_at
    assert float(rate(5)) == pytest.approx(2.5e-4)
    assert not caplog.text
    make_optimizer(configs.OptimizerConfig(warmup_proportion=1.0), 100)
    assert "100 warm-up steps" in caplog.text


def test_xla_is_for_gpus(monkeypatch):
    one_device = tf.distribute.OneDeviceStrategy("/cpu:0")
    engine = training.TensorFlowEngine(one_device)
    assert engine.compiles(True, num_train_steps=1) is True
    tpu = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    engine.strategy = tpu
    assert engine.compiles(True) is False, "a TPU must not be asked to"
    engine.strategy = one_device
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    found = [engine.compiles(None, n) for n in (1999, 2000, None)]
    assert found == [False, True, True]


def test_explicit_files_win_over_those_of_the_model(monkeypatch):
    monkeypatch.setattr(bert_tf.checkpoints.resolver, "fetch", lambda name, _: f"{name}/checkpoint")
    config = configs.ModelConfig(
        model="tiny", bert_config_file="mine", vocab_file="mine", do_lower_case=False
    )
    model_files = bert_tf.checkpoints.resolve(config)
    settings = resolve_settings(do_lower_case=False)
    expected = bert_tf.checkpoints.PretrainedFiles("tiny/checkpoint", "mine", "mine", settings)
    assert model_files == expected
    with pytest.raises(bert_tf.UserError, match="`vocab_file`"):
        bert_tf.checkpoints.resolve(configs.ModelConfig(bert_config_file="a"))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: configs.OptimizerConfig(warmup_proportion=0.1, num_warmup_steps=3),
         "warmup_proportion`.*num_warmup_steps"),
        (lambda: configs.PretrainingConfig("in", "out", masked_lm_prob=0.2),
         "masked_lm_prob`.*dynamic_masking"),
        (lambda: configs.PretrainingConfig(
            "in", "out", train=configs.TrainConfig(num_train_epochs=2.0), do_train=True
        ), "num_train_epochs"),
    ],
)  # fmt: skip
def test_constructors_refuse_values_that_cannot_be_combined(make, named):
    with pytest.raises(bert_tf.UserError, match=f"^`{named}"):
        make()


def test_values_of_other_libraries_are_converted():
    config = configs.TrainConfig(train_batch_size=np.int64(4), num_train_epochs=np.float32(2))
    assert type(config.train_batch_size) is int and type(config.num_train_epochs) is float
    assert configs.TrainConfig(num_train_epochs=2).num_train_epochs == 2
    config = configs.FineTuneConfig(pathlib.Path("out"), ClassificationData(), do_eval=True)
    assert config.output_dir == "out"
    assert ClassificationConfig(labels=["x", "y"]).labels == ("x", "y")
