"""Long documents in windows with pooled logits, from training to the SavedModel."""

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import bert_tf
from bert_tf import configs
from bert_tf.data import input_pipeline, records
from bert_tf.modeling.models import INPUTS
from bert_tf.tasks.classification.examples import Example, make_features
from bert_tf.tasks.classification.options import (
    ClassificationConfig,
    NumericFeature,
)
from bert_tf.tasks.classification.served import classification_servable
from bert_tf.tokenization.packing import DocumentWindows
from bert_tf.tokenization.packing_graph import Windows
from tests.common import write_vocab
from tests.data.record_helpers import writing
from tests.tasks.task_helpers import first_batch, small_config

LENGTH = 6
TEXTS = ["a b", "a b c d", "a b c d e", "a b c d e f g h i j a b", "j", "c " * 50]


@pytest.fixture
def tokenizer(tmp_path):
    return bert_tf.FullTokenizer(str(write_vocab(tmp_path)))


def models(pooling, num_numeric_features=0):
    """Return a classifier and a windowed classifier with the same weights."""
    options = {"num_numeric_features": num_numeric_features}
    plain = bert_tf.BertClassifier(small_config(), 3, **options)
    pooled = bert_tf.BertClassifier(small_config(), 3, window_pooling=pooling, **options)
    rng = np.random.default_rng(0)
    for one, other in zip(plain.weights, pooled.weights, strict=True):
        one.assign(rng.normal(scale=0.3, size=one.shape))
        other.assign(one)
    return plain, pooled


def batch_of(texts, tokenizer, **options):
    """Return the records of texts as one batch."""
    config = ClassificationConfig(
        small_config(), "", labels=("x",), num_texts=1, max_seq_length=LENGTH, **options
    )
    examples = [Example("", text, None, "x") for text in texts]
    return first_batch(make_features(examples, tokenizer, config), 1)


def test_spans():
    windows = DocumentWindows(max_seq_length=6, stride=2, max_windows=3, pooling="mean")
    assert windows.spans(0) == [(0, 0)]
    assert windows.spans(4) == [(0, 4)]
    assert windows.spans(5) == [(0, 4), (2, 3)]
    assert windows.spans(9) == [(0, 4), (2, 4), (4, 4)]
    assert windows.max_length == 8 + 2
    assert ClassificationConfig(max_seq_length=10).windows is None


@pytest.mark.parametrize("options", [{"length_multiple": 2}, {"bucket_by_length": True}, {}])
def test_records_have_the_windows_of_their_document(options, tmp_path):
    """Batches equal those of records padded to W windows."""
    schema, batches, size = records.windowed(records.CLASSIFICATION), {}, {}
    for is_padded in (True, False):
        path = str(tmp_path / f"{is_padded}.tf_record")
        with writing([path], schema) as write:
            for i in range(50):
                num_windows = 16 if i == 7 else 1 + i % 3
                mask = np.zeros((16 if is_padded else num_windows, LENGTH), int)
                mask[:num_windows, : 2 + i % 5] = 1
                tokens = {"input_ids": mask * i, "input_mask": mask, "segment_ids": mask * 0}
                write({**tokens, "label_ids": i % 2, "is_real_example": 1})
        lengths = {"S": LENGTH, "W": 16}
        records.check_lengths(path, schema, lengths)
        data = input_pipeline.TrainingInput([path], schema, lengths, 4, 0, **options)
        batches[is_padded] = list(data.batches().take(30).as_numpy_iterator())
        size[is_padded] = (tmp_path / f"{is_padded}.tf_record").stat().st_size
        spec = data.batches().element_spec["input_ids"].shape
        assert spec == ((4, None, 6) if "length_multiple" in options else (4, 16, LENGTH))
    for old, new in zip(*batches.values(), strict=True):
        np.testing.assert_equal(new, old)
    assert size[False] < size[True] / 2


@pytest.mark.parametrize("pooling", ["mean", pytest.param("max", marks=pytest.mark.slow)])
def test_logits_are_those_of_the_windows(pooling, tokenizer):
    plain, pooled = models(pooling)
    options = {"long_documents": "windows", "doc_stride": 2, "max_windows": 4}
    windows = DocumentWindows(LENGTH, 2, 4, pooling)
    batch = batch_of(TEXTS, tokenizer, **options)
    assert batch["input_ids"].shape == (len(TEXTS), 4, LENGTH)
    logits = pooled(batch)["logits"].numpy()
    for text, row in zip(TEXTS, logits, strict=True):
        words = text.split()
        parts = [" ".join(words[i : i + n]) for i, n in windows.spans(len(words))]
        alone = plain(batch_of(parts, tokenizer))["logits"].numpy()
        expected = alone.mean(0) if pooling == "mean" else alone.max(0)
        np.testing.assert_allclose(row, expected, atol=1e-5)
    # A text of one window has the same result without windows.
    short = [text for text in TEXTS if len(text.split()) <= LENGTH - 2]
    both = [plain(batch_of(short, tokenizer)),
            pooled(batch_of(short, tokenizer, **options))]  # fmt: skip
    np.testing.assert_allclose(both[0]["logits"], both[1]["logits"], atol=1e-6)


@hypothesis.given(st.integers(0, 60), st.integers(5, 12), st.integers(1, 12), st.integers(1, 6))
@hypothesis.settings(max_examples=40, deadline=None)
def test_the_graph_has_the_same_windows(num_tokens, length, stride, max_windows):
    expected = DocumentWindows(length, stride, max_windows, "mean").spans(num_tokens)
    tokens = tf.ragged.constant([[0] * num_tokens], tf.int32, 1)
    graph = Windows(tokens, length - 2, stride, max_windows, True)
    assert list(zip(graph.first.numpy(), graph.length.numpy(), strict=True)) == expected
    # Text beyond `max_length` is cut off.
    max_length = DocumentWindows(length, stride, max_windows, "mean").max_length
    assert (sum(expected[-1]) == num_tokens) == (num_tokens + 2 <= max_length)


@pytest.mark.parametrize(
    ("pooling", "numbers"),
    [pytest.param("mean", (), marks=pytest.mark.slow), ("max", (NumericFeature("x", 1.0, 2.0),))],
)
def test_servable(pooling, numbers, tokenizer, tmp_path):
    """Text and ids give the same logits, alone and in a batch; the text may be empty."""
    _, pooled = models(pooling, len(numbers))
    options = {"long_documents": "windows", "doc_stride": 3, "max_windows": 9}
    config = ClassificationConfig(
        small_config(), str(tmp_path / "vocab.txt"), max_seq_length=LENGTH, labels=("x", "y", "z"),
        num_texts=1, window_pooling=pooling, numeric_features=numbers, **options,
    )  # fmt: skip
    servable = classification_servable(pooled, config, configs.ServingConfig(sequence_buckets=(4,)))
    texts = ["", *TEXTS]
    extra = {"numbers": tf.range(7.0, dtype=tf.float64)[:, None]} if numbers else {}
    outputs = servable.serve_text({"text": tf.constant(texts), **extra})
    batch = batch_of(texts, tokenizer, **options)
    ids = {name: batch[name] for name in INPUTS}
    expected = servable.serve_ids({**ids, **extra})
    for name in ("logits", "probabilities"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    for i, text in enumerate(texts):
        row = {name: value[i : i + 1] for name, value in extra.items()}
        alone = servable.serve_text({"text": tf.constant([text]), **row})
        np.testing.assert_allclose(alone["logits"][0], outputs["logits"][i], atol=1e-5)


def test_keras_saves_the_pooling(tmp_path):
    _, pooled = models("max")
    pooled.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    inputs = {name: np.ones((2, 3, 4), "int32") for name in INPUTS}
    np.testing.assert_allclose(loaded(inputs)["logits"], pooled(inputs)["logits"], atol=1e-6)
