"""Servables of every task: the same answers by strings, by ids, and by Python."""

import json
import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

import bert_tf
from bert_tf import configs, serving
from bert_tf.modeling.layer_states import named_layers
from bert_tf.modeling.layers import Dense
from bert_tf.serving.exporting import WARM_UP_REQUESTS
from bert_tf.serving.prepared_model import QuantizedModel
from bert_tf.tasks.encoder.servable import encoder_servable
from tests.serving.serving_models import LENGTH, TASKS, TINY, WORDS, make_servable, rows_of

# Their code is covered by the other tasks, by test_native.py and by test_predict.py.
_SLOW = ("multi_label", "regression", "fill_mask", "multiple_choice", "encoder",
         "sentence_embedding", "question_answering")  # fmt: skip


@pytest.mark.parametrize(
    "task", [pytest.param(x, marks=[pytest.mark.slow] * (x in _SLOW)) for x in TASKS]
)
def test_a_row_has_the_same_answer_in_every_batch(task, exported, vocab_file):
    """Alone and in a batch, with buckets and without, by the exported text and ids."""
    predictor, rows = exported(task), rows_of(task)
    assert predictor.inputs == tuple(rows[0])
    plain = make_servable(task, vocab_file, configs.ServingConfig())
    for row, in_batch in zip(rows, predictor(rows), strict=True):
        (alone,) = predictor([row])
        specs = plain.text_signature
        inputs = {name: tf.constant([value], specs[name].dtype) for name, value in row.items()}
        outputs = {name: x.numpy()[0] for name, x in plain.serve_text(inputs).items()}
        assert_alike(alone, in_batch)
        assert_alike(alone, predictor.answers.answer(outputs, predictor.metadata))
    extra = pathlib.Path(predictor.path) / "assets.extra"
    metadata = json.loads((extra / "model.json").read_text())
    assert metadata["task"] == task and metadata["sequence_buckets"] == [5, 9, LENGTH]
    assert (extra / "vocab.txt").read_text() == "\n".join(WORDS) + "\n"
    check_ids(predictor, plain)
    check_warm_up_requests(predictor)


def assert_alike(one, other):
    """Compare two answers, of which one may have padding at the end."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_alike(one[name], other[name])
    elif isinstance(one, list):
        size = min(len(one), len(other))
        for padding in (one[size:], other[size:]):
            values = np.array(padding).ravel().tolist()
            assert not [x for x in values if x not in (0, "", -1)] or has_vectors(one)
        for x, y in zip(one, other, strict=False):
            assert_alike(x, y)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=2e-5)
    else:
        assert one == other


def has_vectors(value):
    """Return whether a list has token vectors, whose padding is not 0."""
    return isinstance(value[0], list) and isinstance(value[0][0], float)


def check_ids(predictor, plain):
    """Compare the signature `ids` with the function that it was made of."""
    rng = np.random.default_rng(0)
    inputs = {
        name: tf.constant(rng.integers(0, 2, [2, *(x or 3 for x in spec.shape[1:])]), spec.dtype)
        for name, spec in plain.ids_signature.items()
    }
    inputs["input_mask"] = tf.ones_like(inputs["input_mask"])
    expected = plain.serve_ids(inputs)
    outputs = predictor._model.signatures["ids"](**inputs)
    assert expected.keys() == outputs.keys()
    for name in expected:
        if outputs[name].dtype == tf.float32:
            np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)


def check_warm_up_requests(predictor):
    """Send the model its own warm-up requests."""
    path = os.path.join(predictor.path, WARM_UP_REQUESTS)
    requests = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    assert len(requests) == 2 * 3 * 2  # signatures, lengths, sizes
    log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    for request in requests:
        message = log.PredictionLog.FromString(request).predict_log.request
        serve = predictor._model.signatures[message.model_spec.signature_name]
        serve(**{name: tf.make_ndarray(x) for name, x in message.inputs.items()})


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_names_of_labels(task, vocab_file):
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    names = servable.metadata["labels"]
    rows = rows_of(task)
    inputs = {
        name: tf.constant([row[name] for row in rows], spec.dtype)
        for name, spec in servable.text_signature.items()
    }
    outputs = servable.serve_text(inputs)
    assert outputs["labels"].numpy().tolist() == [[x.encode() for x in names]] * len(rows)
    assert ("label" in outputs) == (task == "classification")
    if "label" in outputs:
        best = [names[i].encode() for i in outputs["probabilities"].numpy().argmax(-1)]
        assert outputs["label"].numpy().tolist() == best
    ids_only = make_servable(task, vocab_file, configs.ServingConfig(inputs="ids"))
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.ones((1, 3), tf.int32))
    if "numbers" in inputs:
        ids["numbers"] = inputs["numbers"][:1]
    assert "labels" in servable.serve_ids(ids)
    # LiteRT could not convert them.
    assert set(ids_only.serve_ids(ids)) == {"logits", "probabilities"}


def test_the_chosen_ending(vocab_file):
    servable = make_servable("multiple_choice", vocab_file, configs.ServingConfig())
    endings = [["a", "b c"], ["c", "j"], ["ab abc", ""]]
    outputs = servable.serve_text(
        {"context": tf.constant(["a", "b", "c"]), "endings": tf.constant(endings)}
    )
    best = outputs["probabilities"].numpy().argmax(-1)
    assert outputs["choice"].numpy().tolist() == best.tolist()
    expected = [row[i].encode() for row, i in zip(endings, best, strict=True)]
    assert outputs["ending"].numpy().tolist() == expected


HOSTILE = [b"\xff\xfe", b"a\0b", "\U0001f600".encode() * 50, b"a" * 100_000, b"\n\t \xc2\xa0",
           b"[CLS] [SEP] [MASK]", "a\u0301\u200b\ufeff b".encode(), b"ab " * 350_000]  # fmt: skip


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("sentence_embedding", marks=pytest.mark.slow),
        pytest.param("question_answering", marks=pytest.mark.slow),
        "token_classification",
    ],
)
def test_hostile_texts(task, vocab_file):
    """Each has the same answer alone and in a batch; the last one has a megabyte."""
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    texts = HOSTILE if task == "sentence_embedding" else HOSTILE[:-1]

    def serve(texts):
        if task == "question_answering":
            questions = tf.constant(["a"] * len(texts))
            return servable.serve_text({"question": questions, "context": texts})
        return servable.serve_text({"text": texts})

    in_batch = serve(tf.constant(texts))
    for i, text in enumerate(texts):
        for name, value in serve(tf.constant([text])).items():
            one, other = value.numpy()[0], in_batch[name].numpy()[i]
            if np.ndim(one):
                size = min(len(one), len(other))
                assert not {*one[size:], *other[size:]} - {b"", -1, 0}, name
                one, other = one[:size], other[:size]
            if value.dtype == tf.float32:
                np.testing.assert_allclose(one, other, atol=1e-5)
            else:
                np.testing.assert_array_equal(one, other)


def test_a_text_graph_has_two_operations_of_tensorflow_text(exported):
    """TF Serving lacks others."""
    path = exported("token_classification").path
    graph = loader_impl.parse_saved_model(path).meta_graphs[0].graph_def
    used = {node.op for node in graph.node}
    used |= {node.op for function in graph.library.function for node in function.node_def}
    of_text = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    known = {op for op in used if hasattr(tf.raw_ops, op)} | of_text
    assert of_text <= used
    assert {op for op in used - known if not op.startswith("_")} <= {
        "Placeholder", "StatefulPartitionedCall", "PartitionedCall", "NoOp"
    }  # fmt: skip


@pytest.fixture(scope="module")
def quantized(vocab_file, tmp_path_factory):
    """Function from a weight type to (bytes of the variables, outputs for some ids)."""
    values = {**TINY.to_dict(), "hidden_size": 64, "intermediate_size": 256}
    keras.utils.set_random_seed(0)
    model = bert_tf.BertModel(bert_tf.BertConfig.from_dict(values))
    tokenizer = bert_tf.FullTokenizer(vocab_file)
    ids = tf.constant([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
    inputs = {"input_ids": ids, "input_mask": tf.sign(ids), "segment_ids": tf.zeros_like(ids)}

    def export(weights):
        options = configs.ServingConfig(inputs="ids", weights=weights, warm_up=False)
        servable = encoder_servable(model, tokenizer, LENGTH, options)
        folder = serving.export(servable, str(tmp_path_factory.mktemp(weights)))
        size = os.path.getsize(f"{folder}/variables/variables.data-00000-of-00001")
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        return size, serve(**inputs)["sequence_output"].numpy()

    size, outputs = export("float32")
    # Each weight once, and the names.
    assert size < 4 * model.count_params() + 100_000
    return lambda weights: (*export(weights), size, outputs)


@pytest.mark.parametrize(
    ("weights", "share", "tolerance"),
    [
        pytest.param("bfloat16", 0.55, 0.02, marks=pytest.mark.slow),
        ("int8", 0.35, 0.1),
    ],
)
def test_smaller_weights(weights, share, tolerance, quantized):
    size, outputs, full_size, expected = quantized(weights)
    assert size < share * full_size
    assert 1e-4 < np.abs(outputs - expected).max() < tolerance


def test_weights_of_8_bits_are_the_nearest():
    config = {**TINY.to_dict(), "hidden_size": 64, "vocab_size": 100}
    model = bert_tf.BertModel(bert_tf.BertConfig.from_dict(config))
    quantized = QuantizedModel(model, "int8")
    for variable, weight, scale in zip(
        model.trainable_variables, quantized.weights, quantized.scales, strict=True
    ):
        if weight.dtype == tf.int8:
            error = np.abs(weight.numpy() * scale.numpy() - variable.numpy())
            assert (error <= 0.5001 * scale.numpy()).all()
        else:
            np.testing.assert_array_equal(weight, variable)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (configs.ServingConfig(sequence_buckets=(13,)), "`sequence_buckets`: 13 .* 1 to 12"),
        (configs.ServingConfig(weights="int4"), "`weights=int4`: .* float32, bfloat16, int8"),
        (configs.ServingConfig(weights="float32", dtype="bfloat16"), "`weights=float32` cannot be"),
        (configs.ServingConfig(dtype="int8"), "`dtype=int8`: .* float32, bfloat16, float16"),
    ],
)
def test_invalid_options(options, message, vocab_file):
    with pytest.raises(bert_tf.UserError, match=message):
        make_servable("sentence_embedding", vocab_file, options)


@pytest.mark.parametrize("weight_type", ["int8", "bfloat16"])
def test_frozen_weights_and_those_with_lora_are_rounded(weight_type):
    config = {**TINY.to_dict(), "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100}
    model = bert_tf.BertModel(bert_tf.BertConfig.from_dict(config))
    model.get_layer("layer_0").trainable = False
    dense = [x for _, x in named_layers(model.get_layer("layer_1")) if isinstance(x, Dense)]
    dense[0].enable_lora(2)
    model.embeddings.trainable = False
    inputs = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]], "segment_ids": [[0, 0, 1]]}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    quantized = QuantizedModel(model, weight_type)
    sizes = [
        x.dtype for x in (*quantized.weights, *quantized.frozen)
        if np.prod(x.shape) >= 4096 and len(x.shape) == 2
    ]  # fmt: skip
    assert set(sizes) == {tf.as_dtype(weight_type)}
    expected = model(inputs)["pooled_output"]
    difference = np.abs(quantized(inputs)["pooled_output"] - expected).max()
    assert 0 < difference < 0.02
