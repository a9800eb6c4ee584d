"""SavedModels of every task: the same answers by strings, by ids, and by Python."""

import json
import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl
from test_modeling import TINY
from test_scripts import WORDS

import bert_tf
from bert_tf import serving, tasks
from bert_tf.serving import warm_up
from bert_tf.serving.quantization import Compressed
from bert_tf.tasks import question_answering as squad
from bert_tf.tasks import token_classification as tagging

TEXTS = ["a b", "c", "", "a b c d e f g h i j a b c d e f", "\ud55c a\u0301", "ab abc"]
LENGTH = 12


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return str(path)


def shaken(model):
    """The model with weights that are far from 0."""
    for weight in model.trainable_weights:
        weight.assign_add(tf.random.normal(weight.shape, stddev=0.3))
    return model


def made(task, vocab_file, options):
    """A `Servable` of each task, always with the same weights."""
    keras.utils.set_random_seed(1)
    common = (True, TINY, vocab_file)
    tokenizer = bert_tf.FullTokenizer(vocab_file)
    if task == "encoder":
        return serving.encoder(shaken(bert_tf.BertModel(TINY)), tokenizer, LENGTH, options)
    if task == "vectors":
        model = shaken(bert_tf.BertModel(TINY))
        encoder = bert_tf.SentenceEncoder(model, tokenizer, max_seq_length=LENGTH)
        return serving.sentences(encoder, options)
    if task == "masked_words":
        keeping = bert_tf.FullTokenizer(vocab_file, keep_special_tokens=True)
        model = shaken(bert_tf.BertPretrainer(TINY))
        return serving.masked_words(model, keeping, LENGTH, options, 3)
    if task == "answers":
        settings = squad.SpanSettings(
            squad.WindowConfig(LENGTH, 3, 4), squad.DecodingConfig(), *common
        )
        return serving.answerer(shaken(bert_tf.BertSpanLabeler(TINY)), settings, options)
    if task == "tagging":
        tags = tagging.Tags(("O", "B-X", "I-X"), "iob2", "iob2")
        settings = tagging.TagSettings(tagging.WindowConfig(LENGTH), tags, *common)
        return serving.tagger(shaken(bert_tf.BertTokenClassifier(TINY, 3)), settings, options)
    if task == "choice":
        settings = tasks.choice.ChoiceSettings(LENGTH, *common)
        return serving.chooser(shaken(bert_tf.BertMultipleChoice(TINY)), settings, options)
    labels = () if task == "regression" else ("x", "y", "z")
    settings = tasks.Settings(labels, LENGTH, *common, task, num_texts=1)
    model = shaken(bert_tf.BertClassifier(TINY, len(labels) or 1))
    return serving.classifier(model, settings, options)


def rows_of(task):
    """Rows for a `Predictor`."""
    if task == "answers":
        return [{"question": "a", "context": text} for text in TEXTS]
    if task == "choice":
        return [{"context": text, "endings": ["a", "b c"][: 1 + i % 2]}
                for i, text in enumerate(TEXTS)]  # fmt: skip
    more = "[MASK] " if task == "masked_words" else ""
    return [{"text": more + text} for text in TEXTS]


TASKS = ["encoder", "vectors", "masked_words", "classification", "multi_label", "regression",
         "answers", "tagging", "choice"]  # fmt: skip


# What the others leave to be seen; classifiers and choosers have tests of their own.
_LATER = ("multi_label", "regression", "choice", "encoder")


@pytest.mark.parametrize(
    "task", [pytest.param(x, marks=[pytest.mark.slow] * (x in _LATER)) for x in TASKS]
)
def test_a_row_is_answered_alike_however_it_is_asked(task, vocab_file, tmp_path):
    """Alone and in any batch, with buckets and without, by the exported text and ids."""
    plain = made(task, vocab_file, serving.Options())
    in_buckets = serving.Options(buckets=(5, 9))
    servable = made(task, vocab_file, in_buckets)
    folder = serving.export(servable, str(tmp_path / "m"))
    rows = rows_of(task)
    together = serving.Predictor(folder)(rows)
    predictor = serving.Predictor(str(tmp_path / "m"), batch_size=1)
    assert predictor.inputs == tuple(rows[0])
    alone = predictor(rows)
    for i, row in enumerate(rows):
        arguments = {name: tf.constant([value]) for name, value in row.items()}
        outputs = {name: x.numpy()[0] for name, x in plain.text(arguments).items()}
        by_python = predictor._answer(outputs)
        for one, other in ((alone[i], together[i]), (alone[i], by_python)):
            assert_alike(one, other)
    extra = pathlib.Path(folder) / "assets.extra"
    about = json.loads((extra / "model.json").read_text())
    assert about["task"] == task and about["sequence_buckets"] == [5, 9, LENGTH]
    assert (extra / "vocab.txt").read_text() == "\n".join(WORDS) + "\n"
    check_ids(folder, plain)


HOSTILE = [b"\xff\xfe", b"a\0b", "\U0001f600".encode() * 50, b"a" * 100_000, b"\n\t \xc2\xa0",
           b"[CLS] [SEP] [MASK]", "a\u0301\u200b\ufeff b".encode(), b"ab " * 350_000]  # fmt: skip


@pytest.mark.parametrize("task", ["vectors", "answers", "tagging"])
def test_texts_that_mean_harm(task, vocab_file):
    """Each has the answer that it has alone, whatever is beside it; the last has a megabyte."""
    serve = made(task, vocab_file, serving.Options()).text
    texts = HOSTILE if task == "vectors" else HOSTILE[:-1]

    def ask(texts):
        if task == "answers":
            return serve({"question": tf.constant(["a"] * len(texts)), "context": texts})
        return serve({"text": texts})

    together = ask(tf.constant(texts))
    for i, text in enumerate(texts):
        alone = ask(tf.constant([text]))
        for name, value in alone.items():
            one, other = value.numpy()[0], together[name].numpy()[i]
            if np.ndim(one):
                size = min(len(one), len(other))
                assert not {*one[size:], *other[size:]} - {b"", -1, 0}, name
                one, other = one[:size], other[:size]
            if value.dtype == tf.float32:
                np.testing.assert_allclose(one, other, atol=1e-5)
            else:
                np.testing.assert_array_equal(one, other)


def assert_alike(one, other):
    """Two answers, of which one may have padding behind it that the other has not."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_alike(one[name], other[name])
    elif isinstance(one, list):
        size = min(len(one), len(other))
        for longer in (one[size:], other[size:]):
            flat = np.array(longer).ravel()
            assert not [x for x in flat.tolist() if x not in (0, "", -1)] or task_of_tokens(one)
        for x, y in zip(one, other, strict=False):
            assert_alike(x, y)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=2e-5)
    else:
        assert one == other


def task_of_tokens(value):
    """Whether a list is of token vectors, whose padding is not 0."""
    return isinstance(value[0], list) and isinstance(value[0][0], float)


def check_ids(folder, plain):
    """The signature `ids`, beside the function that it was made of; and the warm-up requests."""
    signatures = tf.saved_model.load(folder).signatures
    rng = np.random.default_rng(0)
    inputs = {
        name: tf.constant(rng.integers(0, 2, [2, *[3] * (spec.shape.rank - 1)]), tf.int32)
        for name, spec in plain.ids_signature.items()
    }
    inputs["input_mask"] = tf.ones_like(inputs["input_mask"])
    expected, found = plain.ids(inputs), signatures["ids"](**inputs)
    assert expected.keys() == found.keys()
    for name in expected:
        if found[name].dtype == tf.float32:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
    # Every request to warm up with is one that the model answers.
    requests = list(tf.data.TFRecordDataset(f"{folder}/{warm_up.FILE}").as_numpy_iterator())
    assert len(requests) == 2 * 3 * 2  # signatures, lengths, sizes
    log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    for request in requests:
        asked = log.PredictionLog.FromString(request).predict_log.request
        serve = signatures[asked.model_spec.signature_name]
        serve(**{name: tf.make_ndarray(x) for name, x in asked.inputs.items()})


def test_a_model_of_ids_needs_tensorflow_alone(vocab_file, tmp_path):
    options = serving.Options(inputs="ids")
    folder = serving.export(made("answers", vocab_file, options), str(tmp_path), 7)
    assert os.path.basename(folder) == "7"
    loaded = tf.saved_model.load(folder)
    assert list(loaded.signatures) == ["serving_default"]
    graph = pathlib.Path(folder, "saved_model.pb").read_bytes()
    assert b"FastWordpiece" not in graph and b"FastBertNormalize" not in graph
    with pytest.raises(bert_tf.UserError, match="takes ids and no text"):
        serving.Predictor(folder)


def test_a_graph_of_text_has_two_operations_of_tensorflow_text(vocab_file, tmp_path):
    """Others are not in stock TF Serving."""
    folder = serving.export(made("tagging", vocab_file, serving.Options()), str(tmp_path))
    graph = loader_impl.parse_saved_model(folder).meta_graphs[0].graph_def
    used = {node.op for node in graph.node}
    used |= {node.op for function in graph.library.function for node in function.node_def}
    core = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    known = {op for op in used if hasattr(tf.raw_ops, op)} | core
    assert core <= used
    assert {op for op in used - known if not op.startswith("_")} <= {
        "Placeholder", "StatefulPartitionedCall", "PartitionedCall", "NoOp"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "share", "apart"), [("bfloat16", 0.55, 0.02), ("int8", 0.35, 0.1)]
)
def test_smaller_weights(kind, share, apart, vocab_file, tmp_path):
    values = {**TINY.to_dict(), "hidden_size": 64, "intermediate_size": 256}
    config = bert_tf.BertConfig.from_dict(values)
    tokenizer = bert_tf.FullTokenizer(vocab_file)
    sizes, found = {}, {}
    for weights in ("float32", kind):
        options = serving.Options(weights=weights, warm_up=False)
        keras.utils.set_random_seed(0)
        model = bert_tf.BertModel(config)
        servable = serving.encoder(model, tokenizer, LENGTH, options)
        folder = serving.export(servable, str(tmp_path / weights))
        sizes[weights] = os.path.getsize(f"{folder}/variables/variables.data-00000-of-00001")
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        found[weights] = serve(text=tf.constant(TEXTS))["sequence_output"].numpy()
    # Each weight once, beside the names.
    assert sizes["float32"] < 4 * model.count_params() + 100_000
    assert sizes[kind] < share * sizes["float32"]
    difference = np.abs(found[kind] - found["float32"]).max()
    assert 1e-4 < difference < apart


def test_weights_of_8_bits_are_the_nearest(vocab_file):
    model = bert_tf.BertModel(
        bert_tf.BertConfig.from_dict({**TINY.to_dict(), "hidden_size": 64, "vocab_size": 100})
    )
    compressed = Compressed(model, "int8")
    for variable, kept, scale in zip(
        model.trainable_variables, compressed.kept, compressed._scales, strict=True
    ):
        if kept.dtype == tf.int8:
            error = np.abs(kept.numpy() * scale.numpy() - variable.numpy())
            assert (error <= 0.5001 * scale.numpy()).all()
        else:
            np.testing.assert_array_equal(kept, variable)


def test_what_cannot_be(vocab_file, tmp_path):
    for options, message in [
        (serving.Options(buckets=(13,)), "--sequence_buckets: 13, but sequences have 1 to 12"),
        (serving.Options(weights="int4"), "--weights=int4: one of float32, bfloat16, int8"),
    ]:
        with pytest.raises(bert_tf.UserError, match=message):
            made("vectors", vocab_file, options)
    with pytest.raises(bert_tf.UserError, match="is no folder that export_model"):
        serving.Predictor(str(tmp_path))
