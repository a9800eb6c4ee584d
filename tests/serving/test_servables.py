"""Servables of every task give the same answers from strings, from ids, and in Python."""

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
from bert_tf.modeling import cpu_graph
from bert_tf.modeling.layer_states import named_layers
from bert_tf.modeling.layers import Dense
from bert_tf.serving import exporting, prepared_model
from bert_tf.serving.prepared_model import QuantizedModel
from bert_tf.tasks.token_vectors.task import encoder_servable
from tests.common import tiny
from tests.serving import serving_models
from tests.serving.conftest import BUCKETS, assert_alike
from tests.serving.serving_models import CONFIGS, LENGTH, TEXTS, make_servable, padded_ids, rows_of

# With test_predict.py, these tasks cover all code.
SENTENCES = ("classification", "token_classification")

HOSTILE = [b"\xff\xfe", b"a\0b", "\U0001f600".encode() * 50, b"a" * 100_000, b"\n\t \xc2\xa0",
           b"[CLS] [SEP] [MASK]", "a\u0301\u200b\ufeff b".encode()]  # fmt: skip


def each(*quick):
    """Parametrize a test by task; the default suite runs only the names in `quick`."""
    marks = {task: () if task in quick else pytest.mark.slow for task in CONFIGS}
    return pytest.mark.parametrize("task", [pytest.param(x, marks=y) for x, y in marks.items()])


def serve_rows(servable, rows):
    """Return the outputs of a servable for rows, a dict of tensors."""
    columns = {
        name: tf.constant([row[name] for row in rows], spec.dtype)
        for name, spec in servable.text_signature.items()
    }
    return servable.serve_text(columns)


def assert_same_outputs(outputs, expected, mask):
    """Compare outputs for ids where `mask` is 1; outputs at padding are undefined."""
    assert outputs.keys() == expected.keys()
    for name, value in outputs.items():
        value, other = value.numpy(), expected[name].numpy()
        if value.dtype == object:
            assert value.tolist() == other.tolist(), name
            continue
        if value.shape[: mask.ndim] == mask.shape:  # of tokens
            value, other = value[mask == 1], other[mask == 1]
        np.testing.assert_allclose(value, other, atol=1e-5, err_msg=name)


@each(*SENTENCES)
def test_answers(task, exported, vocab_file):
    """The export gives the servable's answers, singly and in a batch, from text and ids."""
    predictor, plain = exported(task), make_servable(task, vocab_file, configs.ServingConfig())
    rows, metadata = rows_of(task), predictor.metadata
    assert predictor.inputs == tuple(rows[0])
    for row, in_batch in zip(rows, predictor(rows), strict=True):
        (alone,) = predictor([row])
        outputs = {name: x.numpy()[0] for name, x in serve_rows(plain, [row]).items()}
        assert_alike(alone, in_batch)
        assert_alike(alone, (predictor.answer)(outputs, metadata))
    inputs, mask = padded_ids(plain, 3)
    outputs = predictor._model.model.signatures["ids"](**inputs)
    assert_same_outputs(outputs, plain.serve_ids(inputs), mask)


@each(*SENTENCES)
def test_side_files(task, exported, vocab_file):
    """The model answers the warm-up requests; model.json and vocab.txt are complete."""
    predictor, lengths = exported(task), [*BUCKETS, LENGTH]
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    extra = pathlib.Path(predictor.path) / "assets.extra"
    metadata = json.loads((extra / "model.json").read_text())
    assert metadata["task"] == task and metadata["sequence_buckets"] == lengths
    if task == "classification":
        assert (extra / "numbers.txt").read_text() == "x\ny\n"
    vocab = [*servable.prepared.tokenizer.vocab]
    assert (extra / "vocab.txt").read_text() == "\n".join(vocab) + "\n"
    path = os.path.join(predictor.path, exporting.WARM_UP_REQUESTS)
    requests = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    assert len(requests) == 2 * len(lengths) * 2  # signatures, lengths, sizes
    of_ids = []
    log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    for request in requests:
        message = log.PredictionLog.FromString(request).predict_log.request
        serve = predictor._model.model.signatures[message.model_spec.signature_name]
        inputs = {name: tf.make_ndarray(x) for name, x in message.inputs.items()}
        serve(**inputs)
        of_ids += [x.shape[-1] for name, x in inputs.items() if name == "input_ids"]
    assert of_ids == [length for length in lengths for _ in range(2)]


@each(*SENTENCES, "encoder", "fill_mask", "question_answering")
def test_skipped_padding(task, vocab_file, monkeypatch):
    """Skipping padding does not change the outputs for padded ids."""
    monkeypatch.setattr(prepared_model, "_MIN_QUANTIZED_SIZE", 1)
    outputs = {}
    for skip_padding in (True, False):
        # With int8, only the rows of the given words are expanded.
        config = configs.ServingConfig(skip_padding=skip_padding, weights="int8")
        servable = make_servable(task, vocab_file, config)
        inputs, mask = padded_ids(servable)
        outputs[skip_padding] = tf.function(servable.serve_ids)(inputs)
    assert_same_outputs(outputs[True], outputs[False], mask)


@each("classification")
def test_half_precision(task, exported, vocab_file, tmp_path):
    """An export in bfloat16 outputs float32 and is close to the model."""
    config = configs.ServingConfig(dtype="bfloat16", warm_up=False)
    servable = make_servable(task, vocab_file, config)
    inputs, mask = padded_ids(servable)
    predictor = serving.Predictor(serving.export(servable, str(tmp_path)))
    assert len(predictor(rows_of(task))) == len(TEXTS)
    outputs = exported(task)._model.model.signatures["ids"](**inputs)
    for name, value in predictor._model.model.signatures["ids"](**inputs).items():
        expected = outputs[name]
        assert value.dtype == expected.dtype
        if value.dtype == tf.float32:
            difference = np.abs(value - expected)
            if value.shape[: mask.ndim] == mask.shape:  # of tokens
                difference = difference[mask == 1]
            assert 0 < difference.max() < 0.2, name


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("token_classification", []),
        pytest.param("question_answering", [], marks=pytest.mark.slow),
        pytest.param("sentence_embedding", [b"ab " * 350_000], marks=pytest.mark.slow),
    ],
)
def test_hostile_texts(task, more, vocab_file):
    """Hostile texts, of up to a megabyte, have the same outputs in Python and in an export."""
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    rows = rows_of(task, [*HOSTILE, *more])
    with cpu_graph.portable():
        in_batch = serve_rows(servable, rows)
    for i, row in enumerate(rows):
        for name, value in serve_rows(servable, [row]).items():
            one, other = value.numpy()[0], in_batch[name].numpy()[i]
            if np.ndim(one):
                size = min(len(one), len(other))
                assert not {*one[size:], *other[size:]} - {b"", -1, 0}, name
                one, other = one[:size], other[:size]
            if value.dtype == tf.float32:
                np.testing.assert_allclose(one, other, atol=1e-5)
            else:
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_names_of_labels(task, vocab_file):
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    names = servable.metadata["labels"]
    rows = rows_of(task)
    outputs = serve_rows(servable, rows)
    assert outputs["labels"].numpy().tolist() == [[x.encode() for x in names]] * len(rows)
    assert ("label" in outputs) == (task == "classification")
    if "label" in outputs:
        best = [names[i].encode() for i in outputs["probabilities"].numpy().argmax(-1)]
        assert outputs["label"].numpy().tolist() == best
    ids_only = make_servable(task, vocab_file, configs.ServingConfig(inputs="ids"))
    ids, _ = padded_ids(servable)
    assert "labels" in servable.serve_ids(ids)
    # LiteRT cannot convert them.
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


@each("token_classification")
def test_a_text_graph_has_two_operations_of_tensorflow_text(task, exported):
    """TF Serving has no other operations of TensorFlow Text."""
    path = exported(task).path
    graph = loader_impl.parse_saved_model(path).meta_graphs[0].graph_def
    used = {node.op for node in graph.node}
    used |= {node.op for function in graph.library.function for node in function.node_def}
    of_text = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    known = {op for op in used if hasattr(tf.raw_ops, op)} | of_text
    assert used & of_text and not [op for op in used if "PyFunc" in op]
    # TensorFlow would replace it by an operation that GPUs lack.
    assert "FusedBatchNormV3" not in used
    assert {op for op in used - known if not op.startswith("_")} <= {
        "Placeholder", "StatefulPartitionedCall", "PartitionedCall", "NoOp"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "share", "tolerance"),
    [pytest.param("bfloat16", 0.55, 0.02, marks=pytest.mark.slow), ("int8", 0.35, 0.1)],
)
def test_smaller_weights(weights, share, tolerance, vocab_file, tmp_path):
    keras.utils.set_random_seed(0)
    model = bert_tf.BertModel(tiny(hidden_size=64, intermediate_size=256))
    config = serving_models.task_config("encoder", vocab_file)
    ids = tf.constant([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
    inputs = {"input_ids": ids, "input_mask": tf.sign(ids), "segment_ids": tf.zeros_like(ids)}
    sizes, outputs = [], []
    for kind in ("float32", weights):
        serving_config = configs.ServingConfig(inputs="ids", weights=kind, warm_up=False)
        servable = encoder_servable(model, config, serving_config)
        folder = serving.export(servable, str(tmp_path / kind))
        sizes.append(os.path.getsize(f"{folder}/variables/variables.data-00000-of-00001"))
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        outputs.append(serve(**inputs)["sequence_output"])
    # Each weight is stored once, plus the names.
    assert sizes[0] < 4 * model.count_params() + 100_000
    assert sizes[1] < share * sizes[0]
    assert 1e-4 < np.abs(outputs[1] - outputs[0]).max() < tolerance


@pytest.mark.parametrize("weight_type", ["int8", "bfloat16"])
def test_frozen_weights_and_those_with_lora_are_rounded(weight_type):
    model = bert_tf.BertModel(tiny(hidden_size=64, intermediate_size=128, vocab_size=100))
    model.get_layer("layer_0").trainable = False
    dense = [x for _, x in named_layers(model.get_layer("layer_1")) if isinstance(x, Dense)]
    dense[0].enable_lora(2)
    model.embeddings.trainable = False
    inputs = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]], "segment_ids": [[0, 0, 1]]}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    quantized = QuantizedModel(model, weight_type)
    matrices = [x for x, _ in quantized.weights if np.prod(x.shape) >= 4096 and len(x.shape) == 2]
    assert {x.dtype for x in matrices} == {tf.as_dtype(weight_type)}
    expected = model(inputs)["pooled_output"]
    difference = np.abs(quantized(inputs)["pooled_output"] - expected).max()
    assert 0 < difference < 0.02
