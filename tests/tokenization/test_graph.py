"""The graph tokenizer gives the ids of the Python tokenizer for every string."""

import functools
import itertools
import re

import pytest
import tensorflow as tf

from bert_tf.tokenization import FullTokenizer, packing
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
