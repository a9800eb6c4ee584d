"""The optimizers in Keras' `fit` make the steps of the release and of the training loop."""

import os
import sys

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import training
from bert_tf.device_check.checks import RECORDED
from bert_tf.optimization import optimizers
from bert_tf.training.pretraining import PretrainingObjective
from tests.common import features, run_python
from tests.optimization import golden_fit
from tests.training.training_helpers import Batches, config, mirrored, one_device


def golden_path(case="adam_warmup"):
    return str(RECORDED / f"{case}.npz")


def fit_golden(path, batch_size=2, jit_compile=False, **options):
    """Fit the recorded steps and return the largest difference."""
    initial, golden = golden_fit.read(path)
    model = golden_fit.model_of(initial)
    optimizer = golden_fit.optimizer_of(golden, **options)
    model.compile(optimizer, golden_fit.loss, jit_compile=jit_compile)
    inputs, labels = golden_fit.examples(initial, golden)
    model.fit(inputs, labels, batch_size=batch_size, shuffle=False, verbose=0)
    return golden_fit.largest_difference(model, golden)


@pytest.mark.parametrize(
    ("case", "jit_compile"),
    [("adam_warmup", True), ("adam_warmup", False), ("adam_no_warmup", False)],
)
def test_fit_equals_the_release(case, jit_compile):
    assert fit_golden(golden_path(case), jit_compile=jit_compile) <= 1e-6


@pytest.fixture(params=[1, optimizers.COMPILED_SIZE], ids=["compiled", "not compiled"])
def compiled_size(request, monkeypatch):
    """The size from which updates are compiled on a CPU."""
    monkeypatch.setattr(optimizers, "COMPILED_SIZE", request.param)


@pytest.mark.usefixtures("compiled_size")
def test_fit_on_replicas_equals_the_release():
    """Large gradients of the replicas nearly cancel, so clipping each alone would differ."""
    with mirrored(2).scope():
        assert fit_golden(golden_path()) <= 1e-6


@pytest.mark.usefixtures("compiled_size")
def test_an_overflow_on_another_replica_changes_no_weight():
    """Keras checks for an overflow only on the first replica, before the sum."""
    with mirrored(2).scope():
        layers = [keras.Input((1,)), keras.layers.Dense(1, dtype="mixed_float16")]
        model = keras.Sequential(layers)
        optimizer = keras.optimizers.LossScaleOptimizer(bert_tf.AdamWeightDecay(1e-2), 1024)
        model.compile(optimizer, "mse")
    before = model.get_weights()
    large = np.float32([[1], [60000]])
    model.fit(large, large, batch_size=2, shuffle=False, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    fine = np.float32([[1], [2]])
    model.fit(fine, fine + 1, batch_size=2, shuffle=False, verbose=0)
    assert np.isfinite(model.get_weights()[0]).all()
    assert (model.get_weights()[0] != before[0]).all()


@pytest.mark.usefixtures("compiled_size")
def test_fit_with_accumulated_gradients_equals_the_release():
    """The schedule counts updates rather than batches."""
    options = {"gradient_accumulation_steps": 2}
    assert fit_golden(golden_path(), batch_size=1, **options) <= 1e-6
    with one_device().scope(), pytest.raises(bert_tf.UserError, match="`gradient_accumulation"):
        fit_golden(golden_path(), batch_size=1, **options)


@pytest.mark.parametrize("backend", ["jax", pytest.param("torch", marks=pytest.mark.slow)])
def test_fit_with_other_backends_equals_the_release(backend):
    pytest.importorskip(backend)
    environment = {"KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert float(run_python(golden_fit.__file__, golden_path(), **environment)) <= 1e-6


@pytest.mark.parametrize("jit_compile", [True, False])
def test_gradients_of_a_repeated_word_are_added_up(jit_compile):
    """Keras' Adam would square each gradient instead of their sum."""
    ids = np.int32([[1, 1, 1, 2]])
    factors = np.float32([[0.1, 0.2, 0.3, 0.5]])
    tokens = keras.Input((4,), dtype="int32", name="ids")
    scale = keras.Input((4,), name="scale")
    vectors = keras.layers.Embedding(3, 1, name="words")(tokens)
    outputs = keras.ops.sum(vectors[:, :, 0] * scale, axis=1)
    model = keras.Model({"ids": tokens, "scale": scale}, outputs)
    optimizer = bert_tf.AdamWeightDecay(0.1)
    model.compile(optimizer, golden_fit.loss, jit_compile=jit_compile)
    model.fit({"ids": ids, "scale": factors}, np.zeros(1), verbose=0)
    sums = np.float32([[0.0], [0.6], [0.5]])
    np.testing.assert_allclose(optimizer.slots["words/embeddings/adam_m"], 0.1 * sums, rtol=1e-5)
    np.testing.assert_allclose(optimizer.slots["words/embeddings/adam_v"], sums**2 / 1e3, rtol=1e-5)


def test_keras_own_way_to_exclude_weights():
    variables = [keras.Variable(np.ones(2, "float32"), name=name) for name in ("kernel", "free")]
    optimizer = bert_tf.AdamWeightDecay(0.1, weight_decay=0.5, exclude_from_weight_decay=())
    optimizer.exclude_from_weight_decay(var_names=["free"])
    optimizer.apply([np.zeros(2, "float32")] * 2, variables)
    np.testing.assert_allclose(variables[0], 0.95)
    np.testing.assert_allclose(variables[1], 1.0)
    one = bert_tf.AdamWeightDecay(0.1, exclude_from_weight_decay="bias")
    assert one.no_decay_patterns == ("bias",)


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        ("AdamWeightDecay", lambda: bert_tf.LinearWarmupDecay(1e-2, 20, 3)),
        pytest.param("LAMB", lambda: 1e-2, marks=pytest.mark.slow),
    ],
)
def test_a_compiled_model_is_saved_and_loaded_with_its_optimizer(kind, rate, tmp_path):
    tokens = keras.Input((8,), dtype="int32", name="input_ids")
    x = keras.layers.Flatten()(keras.layers.Embedding(50, 4)(tokens))
    logits = keras.layers.Dense(3)(keras.layers.LayerNormalization()(x))
    model = keras.Model({"input_ids": tokens}, {"logits": logits})
    optimizer = getattr(bert_tf, kind)(
        rate(), layer_decay=0.9, exclude_from_weight_decay=["gamma"], global_clipnorm=0.5
    )
    inputs = {name: Batches().make(0)[name] for name in model.input}
    labels = {"logits": np.int32([0, 1, 2, 0])}
    loss = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    model.compile(optimizer, loss, jit_compile=False)
    model.fit(inputs, labels, epochs=3, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is type(optimizer)
    assert loaded.optimizer.get_config() == optimizer.get_config()
    for x in (model, loaded):
        x.fit(inputs, labels, epochs=2, shuffle=False, verbose=0)
    assert int(loaded.optimizer.iterations.numpy()) == 5
    pairs = zip(
        model.trainable_variables + optimizer.variables,
        loaded.trainable_variables + loaded.optimizer.variables,
        strict=True,
    )
    for before, after in pairs:
        np.testing.assert_allclose(before.numpy(), after.numpy(), atol=1e-6, err_msg=before.path)


def test_callbacks_read_and_set_the_learning_rate():
    inputs = np.ones((4, 3), "float32")
    optimizer = bert_tf.AdamWeightDecay(0.1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", jit_compile=False)
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    history = model.fit(inputs, inputs[:, :1], epochs=2, callbacks=[halve], verbose=0).history
    np.testing.assert_allclose(history["learning_rate"], [0.05, 0.025])
    # The training loop reads it the same way.
    assert float(optimizer.learning_rate_at(7)) == pytest.approx(0.025)
    assert float(bert_tf.AdamWeightDecay(lambda: 0.2).learning_rate_at(0)) == pytest.approx(0.2)


def fit_in_loop(optimizer, folder):
    loop = training.Loop(
        lambda: PretrainingObjective(config()), training.TensorFlowEngine(one_device()), str(folder)
    )
    loop.train(Batches(), optimizer, 1)


def fit_with_rates():
    model = bert_tf.BertClassifier(config(), 2)
    model.compile(bert_tf.AdamWeightDecay(bert_tf.LinearWarmupDecay(0.1, 9)), "mse")
    model.fit(features(), callbacks=[keras.callbacks.ReduceLROnPlateau()])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda _: bert_tf.AdamWeightDecay(0.1, clipnorm=1.0), "`clipnorm`.*`global_clipnorm`"),
        (lambda _: bert_tf.LAMB(0.1, clipvalue=1.0), "`clipvalue`"),
        (lambda _: bert_tf.LinearWarmupDecay(0.1, 0), "`num_train_steps=0`"),
        (lambda folder: fit_in_loop(keras.optimizers.Adam(), folder), "`optimizer`.*Adam"),
        (lambda x: fit_in_loop(bert_tf.AdamWeightDecay(0.1, use_ema=True), x), "`use_ema`"),
        (lambda _: fit_with_rates(), "`callbacks`: ReduceLROnPlateau"),
    ],
)
def test_options_that_would_be_ignored_are_errors(call, named, tmp_path):
    with pytest.raises(bert_tf.UserError, match=named):
        call(tmp_path)


def test_a_model_in_float64_is_trained():
    """Its heads are float32, so gradients have two types."""
    model = bert_tf.BertClassifier(config(), 2, dtype="float64")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(bert_tf.AdamWeightDecay(1e-3), loss={"logits": loss})
    batch = features()
    del batch["masked_lm_positions"]
    history = model.fit(batch, {"logits": np.int32([0, 1, 0])}, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
