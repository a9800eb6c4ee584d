"""The graph tokenizer gives the ids of the Python tokenizer, also as a layer of Keras models."""

import functools
import itertools
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tokenization import FullTokenizer, packing
from tests.common import TINY, WORDS, write_vocab
from tests.tokenization import hard_strings

graph = pytest.importorskip("bert_tf.tokenization.graph")
pytest.importorskip("tensorflow_text")


@pytest.fixture(scope="module")
def tokenizers(golden_tokenizers):
    """Pairs of Python and graph tokenizers with the vocabulary `vocab_name`."""
    return {
        lower: (python, graph.GraphTokenizer(python.vocab, lower))
        for lower, python in golden_tokenizers.items()
    }


@pytest.fixture(scope="module")
def scripts(script_vocab):
    """A function from options to a Python and a graph tokenizer for many scripts."""

    @functools.cache
    def get(*options, **settings):
        classes = FullTokenizer, graph.GraphTokenizer
        return [make(script_vocab, *options, **settings) for make in classes]

    return get


def differences(python, texts, ids, starts=None, ends=None):
    """Return the first few (text, expected, actual) that differ."""
    if starts is None:
        expected = [(row,) for row in python.encode_batch(texts)]
        actual = [(row,) for row in ids.to_list()]
    else:
        expected = [python.encode_with_offsets(text) for text in texts]
        actual = list(zip(ids.to_list(), starts.to_list(), ends.to_list(), strict=True))
    rows = zip(texts, expected, actual, strict=True)
    return [row for row in rows if row[1] != row[2]][:3]


@pytest.mark.parametrize("vocab_name", ["project", "published"], indirect=True)
def test_golden_cases(golden_cases, tokenizers):
    texts = [text if isinstance(text, bytes) else text.encode() for text, _ in golden_cases]
    for lower, (python, ops) in tokenizers.items():
        expected = [python.convert_tokens_to_ids(tokens[lower]) for _, tokens in golden_cases]
        assert ops.tokenize(texts).to_list() == expected
        assert not differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize(
    "vocab_name", ["project", pytest.param("published", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    "context",
    ["the{}of", *(pytest.param(x, marks=pytest.mark.slow) for x in ("-{}of", "the {} of"))],
)
def test_every_code_point(tokenizers, code_point_digests, context, lower):
    python, ops = tokenizers[lower]
    digest = hard_strings.digest(
        lambda texts: ops.tokenize(texts).to_list(), python.inv_vocab, context
    )
    assert digest == code_point_digests[context, lower]


RULES = [dict(zip(("strip_accents", "tokenize_chinese_chars"), x, strict=True))
         for x in itertools.product((True, False), repeat=2)]  # fmt: skip


@pytest.mark.parametrize(
    ("lower", "keep", "rules"),
    [
        (True, True, {}),
        (True, False, RULES[-1]),
        *(pytest.param(*x, marks=pytest.mark.slow)
          for x in itertools.product((True, False), (True, False), RULES)),
    ],
)  # fmt: skip
def test_random_strings(scripts, rng, lower, keep, rules):
    python, ops = scripts(lower, keep, **rules)
    texts = [hard_strings.string(rng) for _ in range(4000)]
    ids = ops.tokenize(texts)
    assert not differences(python, texts, ids)
    num_known = sum(index != python.vocab["[UNK]"] for index in ids.values.numpy())
    assert num_known > 0.3 * len(ids.values)  # most tokens are not [UNK]
    assert not differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize("lower", [True, False])
def test_spans_of_texts_without_context(scripts, rng, lower):
    """A batch with a separate accent computes spans differently from a batch without."""
    python, ops = scripts(lower, True)
    context = re.compile(ops._span_class or "(?!)")
    texts = [hard_strings.string(rng) for _ in range(4000)]
    texts = [text for text in texts if not context.search(text.decode("utf-8", "ignore"))]
    texts += [b"ab " + "\u4e01x".encode() * 200 + b" b", b"x" * 202 + b" [MASK]"]
    assert len(texts) > 500
    plain = ops.tokenize_with_offsets(texts)
    assert not differences(python, texts, *plain)
    with_accent = ops.tokenize_with_offsets([*texts, "Ae\u0301 \u03a3".encode()])
    for values, expected in zip(with_accent, plain, strict=True):
        assert values[:-1].to_list() == expected.to_list()


@pytest.mark.parametrize("lower", [True, False])
def test_small_batches(scripts, lower):
    python, ops = scripts(lower, True)
    for texts in ([], [""], ["", " \0"], ["Σ"], ["aΣ", ""], ["\u0301"], ["[MASK]"], ["x" * 300],
                  ["[mask] [MASK][MASK]\u0301", "ΑΣ[MASK]Α"],
                  ["\U000f0000\U000f0001 \U000f0002[UNK]"]):  # fmt: skip
        texts = [text.encode() for text in texts]
        constant = tf.constant(texts, tf.string)
        assert not differences(python, texts, ops.tokenize(constant))
        assert not differences(python, texts, *ops.tokenize_with_offsets(constant))


def records(python, texts, pairs, max_seq_length):
    """Return the model's inputs as in the records of a classifier."""
    ids = zip(python.encode_batch(texts), python.encode_batch(pairs), strict=True)
    return [packing.pack_pair(a, b, python, max_seq_length) for a, b in ids]


@pytest.mark.parametrize(("max_seq_length", "longest"), [(5, False), (8, True), (33, False)])
def test_packing(scripts, rng, max_seq_length, longest):
    python, ops = scripts(True, False)
    texts = [hard_strings.string(rng)[: rng.randint(0, 80)] for _ in range(200)]
    pairs = [hard_strings.string(rng)[: rng.randint(0, 80)] * rng.randint(0, 1) for _ in texts]
    for second in (pairs, None):
        expected = records(python, texts, second or [""] * len(texts), max_seq_length)
        packed = ops(texts, second, max_seq_length, pad_to_longest=longest)
        size = max_seq_length
        if longest:
            size = max(sum(row["input_mask"]) for row in expected)
        for name, value in packed.items():
            assert value.dtype == tf.int32
            assert value.numpy().tolist() == [row[name][:size] for row in expected], name
            assert not any(any(row[name][size:]) for row in expected)


# `BertTokenizer`: ids, shapes, models with string inputs, saving, export.


TEXTS = ["a b", "", "Ab zz c d e f", b"\xffa"]
PAIRS = ["c", "d", "", "e f g h i j"]


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tf.BertTokenizer(WORDS, max_seq_length=8)


def as_lists(batch):
    return {name: values.numpy().tolist() for name, values in batch.items()}


def test_shapes(tokenizer, tmp_path):
    python = bert_tf.FullTokenizer(str(write_vocab(tmp_path)))
    rows = records(python, TEXTS, PAIRS, 8)
    expected = {name: [row[name] for row in rows] for name in rows[0]}
    assert as_lists(tokenizer(TEXTS, PAIRS)) == expected
    columns = tf.constant(TEXTS)[:, None], tf.constant(PAIRS)[:, None]
    assert as_lists(tokenizer(*columns)) == expected
    assert as_lists(tokenizer(np.array(TEXTS, object), np.array(PAIRS))) == expected
    scalar = {name: rows[0] for name, rows in expected.items()}
    assert as_lists(tokenizer(TEXTS[0], PAIRS[0])) == scalar
    longest = bert_tf.BertTokenizer(WORDS, max_seq_length=8, pad_to_longest=True)
    assert longest(TEXTS[:2])["input_ids"].shape == (2, 4)
    assert longest([])["input_ids"].shape[0] == 0


def test_in_tf_data(tokenizer):
    expected = as_lists(tokenizer(TEXTS, PAIRS))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, PAIRS))
    for mapped in (dataset.batch(4).map(tokenizer), dataset.map(tokenizer).batch(4)):
        assert as_lists(next(iter(mapped))) == expected
        assert mapped.element_spec["input_ids"].shape[1] == 8


@pytest.mark.slow
def test_model_that_takes_strings(tokenizer, tmp_path):
    texts = keras.Input((), dtype="string", name="text")
    pairs = keras.Input((1,), dtype="string", name="pair")
    batch = tokenizer(texts, pairs)
    x = keras.layers.Embedding(len(WORDS), 4, name="embedding")(batch["input_ids"])
    logits = keras.layers.Dense(2, name="dense")(keras.layers.Flatten()(x))
    model = keras.Model({"text": texts, "pair": pairs}, logits)
    inputs = {"text": tf.constant(TEXTS), "pair": tf.constant(PAIRS)[:, None]}
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(inputs, np.array([0, 1, 0, 1]), batch_size=2, verbose=0)
    x = model.get_layer("embedding")(tokenizer(TEXTS, PAIRS)["input_ids"])
    expected = model.get_layer("dense")(tf.reshape(x, (len(TEXTS), -1)))
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-6)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))

    model.export(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "export"))
    np.testing.assert_allclose(served.serve(inputs), expected, atol=1e-6)


def test_methods_of_keras_hub(tmp_path):
    vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 5, "##b": 4}
    pieces = ["[UNK]", "[CLS]", "[SEP]", None, "##b", "a"]
    ids, text = [1, 5, 4, 5, 2], "[CLS] ab a [SEP]"
    for tokenizer in (bert_tf.BertTokenizer(pieces), bert_tf.FullTokenizer(vocab)):
        assert tokenizer.get_vocabulary() == pieces and tokenizer.vocabulary_size() == 6
        assert tokenizer.token_to_id("##b") == 4 and tokenizer.id_to_token(5) == "a"
        for form in (list, np.array, tf.constant):
            assert tokenizer.detokenize(form(ids)) == text
            assert tokenizer.detokenize(form([ids])) == [text]
        for call, value in (
            (tokenizer.token_to_id, "b"), (tokenizer.id_to_token, 3), (tokenizer.detokenize, [-1])
        ):  # fmt: skip
            with pytest.raises(bert_tf.UserError, match="vocabulary of 5"):
                call(value)


def test_config_round_trip():
    vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 4, "a": 7}
    layer = bert_tf.BertTokenizer(
        vocab, False, max_seq_length=6, pad_to_longest=True, keep_special_tokens=True, name="t"
    )
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    loaded = keras.saving.deserialize_keras_object(config)
    assert loaded.vocab == vocab and loaded.name == "t"
    assert loaded.get_config() == layer.get_config()
    assert as_lists(loaded(["a [MASK] A"])) == as_lists(layer(["a [MASK] A"]))


def test_from_preset(tmp_path):
    write_vocab(tmp_path)
    layer = bert_tf.BertTokenizer.from_preset(tmp_path)
    assert layer.do_lower_case and layer.max_seq_length == 128
    config = ClassificationConfig(
        TINY, str(tmp_path / "vocab.txt"), max_seq_length=9, labels=("x", "y")
    )
    config.save(tmp_path / "run")
    assert bert_tf.BertTokenizer.from_preset(tmp_path / "run").max_seq_length == 9
    layer = bert_tf.BertTokenizer.from_preset(tmp_path / "run", max_seq_length=5)
    assert layer.max_seq_length == 5 and layer.do_lower_case


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["a", "b"]],), r"`texts`: .*\(1, 2\).*`pairs`"),
        ((["a"], keras.Input((1,), dtype="int32")), "`pairs`: .*int32"),
        ((keras.Input((3,), dtype="string"),), r"`texts`: .*\(None, 3\)"),
        ((["a"], ["b", "c"]), "`texts` and `pairs`: found 1 and 2"),
    ],
)
def test_wrong_texts(tokenizer, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        tokenizer(*arguments)


def test_wrong_arguments(tmp_path, write_vocab):
    long = write_vocab(["[UNK]", "[CLS]", "[SEP]", "[MASK]", "\U00010400" * 100])
    for make, arguments, message in (
        (bert_tf.BertTokenizer, {"vocabulary": ["a"]}, r"`vocabulary`: .*\[UNK\]"),
        (bert_tf.BertTokenizer, {"vocabulary": WORDS, "max_seq_length": 4}, "`max_seq_length=4`"),
        (bert_tf.GraphTokenizer, {"vocab": str(tmp_path)}, f"{tmp_path}: cannot be read"),
        (bert_tf.GraphTokenizer, {"vocab": long}, "the piece .* 256 bytes"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            make(**arguments)
