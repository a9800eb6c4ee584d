"""The model: the release's outputs, dropout, and Keras files."""

import collections
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.device_check.checks import RECORDED, compute_outputs, recorded_batch
from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer, Dropout
from tests.common import TINY, features, tiny
from tests.modeling.conftest import CHECKS, MODELS, BackboneTest, make_model


def test_equals_the_release():
    config, batch, expected = recorded_batch()
    model = BertPretrainer(config)
    checkpoints.warm_start(model, str(RECORDED / "bert_model.ckpt"))
    for name, value in compute_outputs(model, batch).items():
        np.testing.assert_allclose(value, expected[name], atol=2e-5, rtol=0, err_msg=name)


def test_inputs_that_may_be_omitted(tmp_path):
    """By default the mask is 1 and segments are 0, also in `fit` and in users' models."""
    bert, ids = BertModel(TINY), features()["input_ids"]
    mask = np.ones_like(ids)
    expected = bert({"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids})
    x = keras.Input((None,), dtype="int32")
    pooled = keras.Model(x, bert(x)["pooled_output"])
    pooled.save(tmp_path / "pooled.keras")
    results = [
        bert(ids)["pooled_output"],
        bert({"input_ids": ids, "segment_ids": 0 * ids})["pooled_output"],
        bert.predict({"input_ids": ids, "input_mask": mask}, verbose=0)["pooled_output"],
        keras.Sequential([x, pooled])(ids),
        keras.saving.load_model(tmp_path / "pooled.keras")(ids),
    ]
    for result in results:
        np.testing.assert_allclose(result, expected["pooled_output"], atol=1e-6, rtol=0)
    classifier = BertClassifier(tiny(num_hidden_layers=1), 2)
    classifier.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert np.isfinite(classifier.fit(ids, np.zeros(3), verbose=0).history["loss"]).all()


# Whether a model accepts these names of its inputs.
NAMES = {
    "input_ids input_mask segment_ids label_ids": True,
    "input_ids attention_mask token_type_ids": True,
    "token_ids padding_mask segment_ids": True,
    "input_word_ids input_mask input_type_ids": True,
    "input_ids attention_mask token_type_ids position_ids": False,
    "input_ids input_mask segment_ids attention_mask": False,
    "input_ids input_masks segment_ids": False,
    "ids input_mask segment_ids": False,
}


def test_names_of_other_libraries():
    """They are used in every kind of call, also in a mapping such as a `BatchEncoding`."""
    model, labels = BertClassifier(tiny(num_hidden_layers=1), 2), np.zeros(3)
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", run_eagerly=True)
    variables = model.trainable_variables, model.non_trainable_variables

    def extended(x):
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in x}
        return keras.Model(inputs, model(inputs)["logits"])(dict(x))

    calls = [
        lambda x: model(x)["logits"],
        extended,
        lambda x: model.stateless_call(*variables, x)[0]["logits"],
        lambda x: model.predict({k: v.tolist() for k, v in x.items()}, verbose=0)["logits"],
        lambda x: model.fit(x, labels, validation_data=(x, labels), verbose=0).history["val_loss"],
        lambda x: model.evaluate(x, labels, verbose=0) + model.test_on_batch(x, labels),
        lambda x: 0 * model.train_on_batch(x, labels),  # has dropout
    ]
    batch = {name: features()[name] for name in model.input}
    expected = [call(batch) for call in calls]
    spec = model.compute_output_spec({"token_ids": batch["input_ids"]})
    assert spec["logits"].shape[-1] == 2
    with pytest.raises(bert_tf.UserError, match=r"found the shape \(.*expected 2 dimensions"):
        model({name: x[0] for name, x in batch.items()})
    with pytest.raises(ValueError, match=r"call `compile"):
        BertClassifier(TINY, 2).fit(batch, labels)
    for names, is_known in NAMES.items():
        values = [*batch.values(), batch["input_mask"]]
        x = collections.UserDict(zip(names.split(), values, strict=False))
        for call, value in zip(calls, expected, strict=True):
            if is_known:
                np.testing.assert_allclose(call(x), value, atol=1e-6)
            else:
                with pytest.raises(bert_tf.UserError, match=r"expected input_ids, .*segment_ids"):
                    call(x)


def test_losses_and_metrics_take_logits():
    model, batch = BertClassifier(tiny(num_hidden_layers=1), 2), features()
    labels, name = np.eye(2)[[0, 1, 0]], "binary_crossentropy"
    logits, function = model(batch)["logits"], keras.losses.binary_crossentropy
    expected = np.mean(function(labels, logits, from_logits=True))
    for loss in (name, [name], function, {"logits": name}, "bce"):
        model.compile("sgd", loss, run_eagerly=True)
        np.testing.assert_allclose(model.test_on_batch(batch, labels), expected, rtol=1e-5)
    model.compile("sgd", name, weighted_metrics=[function])
    np.testing.assert_allclose(model.test_on_batch(batch, labels)[1], expected, rtol=1e-5)
    single = BertClassifier(tiny(num_hidden_layers=1), 1)
    single.compile("sgd", "ce", metrics=["Accuracy", "hinge"], run_eagerly=True)
    scores, own, hinge = single(batch)["logits"], labels[:, :1], keras.losses.hinge
    values = function(own, scores, from_logits=True), (scores > 0) == own, hinge(own, scores)
    results = single.test_on_batch(batch, own)
    np.testing.assert_allclose(results, [*map(np.mean, values)], rtol=1e-5)
    loss = keras.losses.CategoricalGeneralizedCrossEntropy()
    sparse = "sparse_categorical_crossentropy"
    model.compile("sgd", loss, metrics=["AUC", "accuracy", sparse], run_eagerly=True)
    probabilities, ids = keras.ops.softmax(logits), np.array([0, 1, 0])
    correct = np.mean(np.argmax(logits, -1) == ids)
    entropies = getattr(keras.losses, sparse)(ids, probabilities)
    expected = loss(ids, probabilities), keras.metrics.AUC()(labels, probabilities), correct
    for targets in (ids, ids[:, None]):
        values = model.test_on_batch(batch, targets)
        np.testing.assert_allclose(values, [*expected, np.mean(entropies)], rtol=1e-5)
        model.reset_metrics()
    single.compile("sgd", "mse", metrics=["mae"], run_eagerly=True)  # of scores
    errors = single(batch)["logits"] - labels[:, :1]
    values = single.test_on_batch(batch, labels[:, :1])
    np.testing.assert_allclose(values, [np.mean(errors**2), np.mean(np.abs(errors))], rtol=1e-5)
    encoder = BertModel(tiny(num_hidden_layers=1))
    encoder.compile(loss={"pooled_output": "mse"}, run_eagerly=True)  # of vectors
    vectors = encoder(batch)["pooled_output"]
    assert encoder.test_on_batch(batch, {"pooled_output": vectors}) < 1e-9


@pytest.mark.parametrize("skip_padding", [False, True])
def test_an_empty_share_of_a_batch_has_the_shape_of_the_others(skip_padding):
    """If a batch has fewer rows than replicas, some replicas get no rows."""
    model, batch = BertPretrainer(TINY), features()
    whole = model(batch)
    run = tf.function(lambda x: model(x, skip_padding=skip_padding))
    empty = run({name: x[:0] for name, x in batch.items()})
    for name, value in whole.items():
        assert empty[name].shape == (0, *value.shape[1:])


# The models of each check in the default suite; the others run the same code.
_QUICK = {
    "keras_file": (BertClassifier,),
    "keras_file_of_half_precision": (BertPretrainer,),
    "clone": (BertClassifier,),
    "half_precision": (BertPretrainer,),
    "skipped_padding": (BertPretrainer,),
}


@pytest.mark.parametrize(
    ("check", "model_class"),
    [
        pytest.param(check, x, marks=() if x in _QUICK[check] else pytest.mark.slow)
        for check in CHECKS
        for x in MODELS
    ],
)
def test_every_model(check, model_class, tmp_path):
    """See `BackboneTest`."""

    def make(dtype):
        return make_model(model_class, dtype)[0]

    getattr(BackboneTest(make, make_model(model_class)[1], tmp_path), check)()


class Streams:
    """A model in training mode whose random state can be rewound."""

    def __init__(self):
        self.model, self.batch = BertPretrainer(tiny(num_hidden_layers=1)), features()

    def logits(self, **arguments):
        """Rewind the random state; return the logits."""
        for number, variable in enumerate(self.model.non_trainable_variables):
            variable.assign(np.array([number, 7], "uint32"))
        return self.model(self.batch, training=True, **arguments)["masked_lm_logits"]


def test_replica_id_selects_the_random_stream():
    logits = Streams().logits
    plain, second = logits(), logits(replica_id=1)
    assert np.abs(second - plain).max() > 1e-3
    np.testing.assert_array_equal(logits(replica_id=0), plain)
    np.testing.assert_array_equal(logits(replica_id=tf.constant(1)), second)

    class Both(keras.layers.Layer):
        """Keras passes a layer's call arguments to the layers inside it."""

        def call(self, x):
            return [logits(replica_id=i) for i in (0, 1, 0)]

    for result, expected in zip(Both()(np.zeros(1)), (plain, second, plain), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_recomputation_gives_the_same_gradients():
    streams = Streams()

    def gradients(**arguments):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(streams.logits(replica_id=1, **arguments)))
        values = tape.gradient(loss, [v.value for v in streams.model.trainable_variables])
        return [np.array(tf.convert_to_tensor(v)) for v in values if v is not None]

    plain, recomputed = gradients(), gradients(recompute=True)
    assert len(plain) == len(recomputed) > 20
    for a, b in zip(plain, recomputed, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(a).max())


def test_too_long_sequence_is_rejected():
    with pytest.raises(ValueError, match=r"`input_ids`.* 13 .* 12"):
        BertModel(TINY)(features(length=13))


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_size": 15}, {"vocab_size": 0}, {"num_hidden_layers": "2"},
        {"hidden_dropout_prob": 1.0}, {"layer_norm_eps": -1}, {"initializer_range": float("nan")},
        {"max_position_embeddings": 10**15}, {"hidden_act": "swish2"}, {"hidden_act": ["gelu"]},
        {"pooler_act": "swish"}, {"embedding_size": 0}, {"has_segment_embeddings": 1},
        {"model_type": "roberta"},
        *({"model_type": "bert", **x} for x in (
            {"position_embedding_type": "relative_key"}, {"is_decoder": True},
            {"hidden_act": "silu"},
        )),
    ],
)  # fmt: skip
def test_config_rejects_nonsense(values):
    """The error names the key, the last one."""
    with pytest.raises(bert_tf.UserError, match=[*values][-1]):
        bert_tf.BertConfig.from_dict({**TINY.to_dict(), **values})


def test_config_file(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(TINY.to_json_string().replace("{", '{"pooler_type": "first",', 1))
    config = bert_tf.BertConfig.from_json_file(str(path))
    assert config.to_dict() == {**TINY.to_dict(), "pooler_type": "first"}
    path.write_text("[]")
    with pytest.raises(bert_tf.UserError, match=r"bert_config\.json.*vocab_size"):
        bert_tf.BertConfig.from_json_file(str(path))


def test_dropout_of_heads():
    """The rates equal transformers' rates, or else the release's, also after saving."""
    values = tiny(num_hidden_layers=1, hidden_dropout_prob=0.05).to_dict()
    for model_type, changes, rates in (
        ("bert", {"classifier_dropout": None}, [0.1, 0.1, 0.05]),
        ("bert", {"classifier_dropout": 0.0}, [0.0, 0.0, 0.0]),
        ("distilbert", {"seq_classif_dropout": 0.2, "qa_dropout": 0.4}, [0.2, 0.2, 0.4, 0.05]),
    ):
        config = bert_tf.BertConfig.from_dict({**values, "model_type": model_type, **changes})
        config = bert_tf.BertConfig.from_dict(json.loads(config.to_json_string()))
        layers = [x for head, options in MODELS.items() for x in head(config, **options).layers]
        assert [x.rate for x in layers if x.name == "dropout"] == rates


@pytest.mark.parametrize("shape", [(None, 2, None, None), (None, None, 4), (None, None)])
def test_dropout_of_unknown_lengths(shape):
    """One graph serves training batches of different lengths."""
    layer = Dropout(0.5)
    dropped = tf.function(lambda x: layer(x, training=True))
    dropped = dropped.get_concrete_function(tf.TensorSpec(shape, tf.float32))
    for size in (5, 6):
        x = tf.ones([n or size for n in shape])
        assert dropped(x).shape == x.shape


@pytest.mark.parametrize("shape", [(2000, 3, 100), (75, 31, 100), (75, 31, 75)])
def test_dropout_drops_independently_at_its_rate(shape):
    keras.utils.set_random_seed(1)
    layer = Dropout(0.1)
    ones = np.ones(shape, "float32")
    np.testing.assert_array_equal(layer(ones, training=False), ones)
    spec = tf.TensorSpec((None, None, shape[-1]))
    call = tf.function(lambda x: layer(x, training=True), input_signature=[spec])
    first, second = np.array(layer(ones, training=True)), np.array(call(ones))
    size, shares = first.size, []
    for values in (first, second):
        dropped = values == 0
        np.testing.assert_allclose(values[~dropped], 1 / 0.9, rtol=1e-6)
        shares.append((dropped.mean(), 0.1))
        # The two halves of a random number are independent.
        for axis in range(3):
            half = shape[axis] // 2
            one, other = np.split(np.take(dropped, range(2 * half), axis), 2, axis)
            shares.append(((one & other).mean(), 0.01))
    shares.append((((first == 0) & (second == 0)).mean(), 0.01))
    for share, expected in shares:
        assert abs(share - expected) < 5 * (2 * expected / size) ** 0.5


def test_mixed_precision_does_not_round_the_bias_of_words():
    model = bert_tf.BertPretrainer(tiny(), dtype="mixed_bfloat16")
    batch = features()
    before = model(batch)["masked_lm_logits"]
    model.get_layer("masked_lm").output_bias.assign(np.full(50, 1.001, "float32"))
    change = model(batch)["masked_lm_logits"] - before
    np.testing.assert_allclose(change, 1.001, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "index", "size", "dtype"),
    [
        ("segment_ids", 2, 2, "int32"), ("input_ids", -1, 50, "int32"),
        # A cast to int32 would make valid ids of these.
        ("input_ids", 2**32 + 7, 50, "int64"), ("segment_ids", 2**63 + 1, 2, "uint64"),
        ("masked_lm_positions", 2**32, 2**31, "int64"), ("input_ids", 2.0**32, 50, "float64"),
    ],
)  # fmt: skip
def test_ids_without_embeddings_are_rejected(name, index, size, dtype):
    batch = features()
    batch[name] = batch[name].astype(dtype)
    batch[name][1, 1] = index
    model = BertPretrainer(tiny(num_hidden_layers=1))
    for inputs in (batch, {key: tf.constant(x) for key, x in batch.items()}):
        with pytest.raises(bert_tf.UserError, match=f"`{name}`: found {index},.* {size - 1}\\b"):
            model(inputs)
    message = rf" is not in \[0, {size}\)[\s\S]*{name}_below" if size < 99 else " is not in "
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.function(model)(inputs)
