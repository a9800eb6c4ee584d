"""Padding of batches to their longest example, and windows of long documents."""

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import bert_tf
from bert_tf import configs, training
from bert_tf.data import input_pipeline, records
from bert_tf.modeling import BertClassifier, BertSpanLabeler
from bert_tf.tasks.classification.examples import Example, make_features
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.classification.options import ClassificationConfig, NumericFeature
from bert_tf.tasks.classification.served import classification_servable
from bert_tf.tasks.question_answering.objective import QuestionAnsweringObjective
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tokenization.packing import DocumentWindows
from bert_tf.tokenization.packing_graph import Windows
from bert_tf.tokenization.settings import INPUTS
from tests.common import write_files, write_vocab
from tests.data.record_helpers import write_examples
from tests.tasks.conftest import make_run
from tests.tasks.task_helpers import first_batch, small_config
from tests.training.training_helpers import mirrored, one_device

S = 24


def write_records(folder, count=40):
    """Write records of 2 to 20 tokens, mostly short; return the path."""
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(count) % 13, rng.integers(2, 9, count), 20)
    masks = (np.arange(S) < lengths[:, None]).astype("int64")
    examples = [
        {"input_ids": rng.integers(1, 30, S) * mask, "input_mask": mask, "segment_ids": 0 * mask,
         "label_ids": rng.integers(2), "is_real_example": 1}
        for mask in masks
    ]  # fmt: skip
    return write_examples([str(folder / "train.tf_record")], records.CLASSIFICATION, examples)


def make_input(input_class, path, multiple, **options):
    return input_class(
        [path], records.CLASSIFICATION, {"S": S}, 4, length_multiple=multiple, **options
    )


def test_batches_are_as_long_as_their_longest_text(tmp_path):
    path = write_records(tmp_path)
    pairs = zip(
        make_input(input_pipeline.TrainingInput, path, None, seed=3).batches().take(12),
        make_input(input_pipeline.TrainingInput, path, 8, seed=3).batches().take(12),
        strict=True,
    )
    lengths = set()
    for whole, short in pairs:
        length = short["input_ids"].shape[1]
        longest = int(tf.reduce_max(tf.reduce_sum(whole["input_mask"], 1)))
        assert longest <= length < longest + 8 and length % 8 == 0
        lengths.add(length)
        assert not tf.reduce_any(whole["input_mask"][:, length:] > 0)
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(short[name], whole[name][:, :length])
        np.testing.assert_array_equal(short["label_ids"], whole["label_ids"])
    assert lengths == {8, 24}


def test_masks_with_gaps():
    """Masks from other programs may start late or have gaps; no token is cut off."""
    batch = {"input_ids": tf.constant([[0, 5, 0, 6, 0, 0]]), "label_ids": tf.constant([1])}
    batch["input_mask"] = batch["segment_ids"] = tf.constant([[0, 1, 0, 1, 0, 0]])
    schema = records.CLASSIFICATION
    assert records.trim(batch, schema, 1)["input_ids"].numpy().tolist() == [[0, 5, 0, 6]]
    batch["input_mask"] *= 0
    assert records.trim(batch, schema, 1)["input_ids"].shape == (1, 1)


@pytest.mark.parametrize(("multiple", "max_shapes"), [(32, 4), (8, 1000)])
def test_documents_have_few_shapes_under_xla(multiple, max_shapes):
    """Only padding is cut off; single windows are cut as without XLA."""
    rng = np.random.default_rng(0)
    schema, shapes = records.windowed(records.CLASSIFICATION), set()
    for _ in range(60):
        counts = rng.integers(1, rng.integers(2, 17), 4)
        lengths = np.where(counts > 1, 128, rng.integers(2, 129, 4))
        mask = (np.arange(128) < lengths[:, None, None]) & (
            np.arange(16)[:, None] < counts[:, None, None]
        )
        batch = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.cast(mask, tf.int32))
        short = records.trim({**batch, "label_ids": tf.zeros(4)}, schema, multiple)
        shapes.add(tuple(short["input_ids"].shape))
        assert tf.reduce_sum(short["input_mask"]) == mask.sum()
        if multiple == 8:
            assert short["input_ids"].shape[1:] == (counts.max(), -(-lengths.max() // 8) * 8)
    assert 1 < len(shapes) <= max_shapes


def test_length_multiple():
    engine = training.TensorFlowEngine(one_device())
    multiples = [engine.length_multiple(n, xla) for xla in (False, True) for n in (128, 70)]
    assert multiples == [8, 8, 32, 24]
    engine.strategy = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    assert engine.length_multiple(128, False) is None


@pytest.mark.parametrize(
    ("flags", "expected"), [([], 8), (["--pad_to_max_length", "--bucket_by_length"], None)]
)
def test_flag(run_script, experiments, tmp_path, flags, expected):
    write_files(tmp_path, train__tsv="text\tlabel\na\tx\nb\ty\n")
    run = make_run(run_script, "run_classifier", tmp_path)
    log = run(f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", *flags)
    assert experiments[0].length_multiple == expected
    assert ("--bucket_by_length has no effect" in log) == (expected is None)


def test_masked_padding_has_no_effect_on_question_answering():
    """Unlike in the release, loss and best positions do not depend on the padded length."""
    rng = np.random.default_rng(1)
    mask = (np.arange(12) < np.array([[5], [8], [3]])).astype("int32")
    whole = {"input_ids": rng.integers(1, 30, (3, 12)) * mask, "input_mask": mask,
             "segment_ids": 0 * mask, "unique_ids": np.arange(3),
             "start_positions": np.array([1, 7, 0]),
             "end_positions": np.array([4, 7, 0])}  # fmt: skip
    whole = {name: tf.constant(x, tf.int32) for name, x in whole.items()}
    short = {name: x[:, :8] if x.shape.rank == 2 else x for name, x in whole.items()}
    for mask_padding in (True, False):
        keras.utils.set_random_seed(0)
        config = small_config(max_position_embeddings=S, initializer_range=0.5)
        objective = QuestionAnsweringObjective(
            BertSpanLabeler(config),
            QuestionAnsweringConfig(config, n_best_size=5),
            mask_padding=mask_padding,
        )
        losses, predictions = [], []
        for batch in (whole, short):
            outputs = objective.model(batch, training=False)
            denominators = objective.denominators(batch)
            losses.append(float(objective.losses(outputs, batch, denominators)["span_loss"]))
            predictions.append(objective.predictions(outputs, batch))
        if not mask_padding:
            assert losses[0] > losses[1] + 0.1
            continue
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        for side in ("start", "end"):
            np.testing.assert_array_equal(predictions[0][side][:2], predictions[1][side][:2])
            assert int(tf.reduce_max(predictions[0][side][0])) < 5


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_of_different_lengths_are_not_retraced(tmp_path, count):
    path = write_records(tmp_path, 120)
    engine = training.TensorFlowEngine(one_device() if count == 1 else mirrored(count))
    config = small_config(max_position_embeddings=S)
    loop = training.Loop(
        lambda: ClassificationObjective(BertClassifier(config, 2)), engine, str(tmp_path / "out")
    )
    data = make_input(input_pipeline.EvaluationInput, path, 1)
    assert len({batch["input_ids"].shape[1] for batch in data.batches()}) > 4
    loop.evaluate(data)
    assert loop._predict_step.experimental_get_tracing_count() <= 4


# Long documents in windows with pooled logits, from training to the SavedModel.


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


@pytest.mark.parametrize("options", [{"length_multiple": 2}, {"bucket_by_length": True}, {}])
def test_records_have_the_windows_of_their_document(options, tmp_path):
    """Batches equal the batches of records padded to W windows."""
    schema, batches, size = records.windowed(records.CLASSIFICATION), {}, {}
    for is_padded in (True, False):
        examples = []
        for i in range(50):
            num_windows = 16 if i == 7 else 1 + i % 3
            mask = np.zeros((16 if is_padded else num_windows, LENGTH), int)
            mask[:num_windows, : 2 + i % 5] = 1
            tokens = {"input_ids": mask * i, "input_mask": mask, "segment_ids": mask * 0}
            examples.append({**tokens, "label_ids": i % 2, "is_real_example": 1})
        path = write_examples([str(tmp_path / f"{is_padded}.tf_record")], schema, examples)
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
    if numbers:
        other = servable.serve_ids({**ids, "numbers": extra["numbers"] + 1})
        assert np.abs(other["logits"] - expected["logits"]).min() > 1e-3
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
