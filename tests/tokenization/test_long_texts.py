"""The graph tokenizer needs memory in proportion to the bytes that it uses."""

import contextlib

import pytest
import tensorflow as tf

from bert_tf.tokenization import normalization
from tests.tokenization import hard_strings

graph = pytest.importorskip("bert_tf.tokenization.graph")
pytest.importorskip("tensorflow_text")
from bert_tf.tokenization import graph_normalization  # noqa: E402


@contextlib.contextmanager
def largest_tensor():
    """Run functions eagerly; yield a dict whose "size" is the size of the largest tensor."""
    from tensorflow.python.framework import op_callbacks

    largest = {"size": 0}

    def on_operation(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        for x in outputs:
            if getattr(x, "dtype", None) not in (None, tf.resource, tf.variant):
                largest["size"] = max(largest["size"], x.shape.num_elements() or 0)

    tf.config.run_functions_eagerly(True)
    op_callbacks.add_op_callback(on_operation)
    try:
        yield largest
    finally:
        op_callbacks.remove_op_callback(on_operation)
        tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def tokenizer():
    words = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abc"), "中"]
    return graph.GraphTokenizer({word: index for index, word in enumerate(words)})


def test_no_tensor_is_texts_or_words_by_their_lengths(tokenizer):
    """A batch has one long text among short texts, and one long word among short words."""
    texts = [b"x" * 2000, b"a " * 2000, "aΣ\u0301 \U0001d160 ".encode() * 300, *[b"b"] * 200]
    with largest_tensor() as largest:
        ids, _, _ = tokenizer.tokenize_with_offsets(tf.constant(texts))
    size = sum(map(len, texts))
    assert len(ids.values) > 2000
    assert size / 2 < largest["size"] < 3 * size


@pytest.mark.parametrize("filling", [b"ab ab, ", "中文".encode()])
def test_the_end_of_a_long_text_costs_nothing(tokenizer, filling):
    sizes = []
    for repeats in (2000, 20_000):
        texts = tf.constant([filling * repeats, b"a"])
        with largest_tensor() as largest:
            packed = tokenizer(texts, texts, max_seq_length=64)
        assert tf.reduce_sum(packed["input_mask"][0]) == 64
        sizes.append(largest["size"])
    assert sizes[0] == sizes[1] < 64 * 40


@pytest.mark.parametrize("lower", [True, False])
def test_first_tokens_are_those_of_the_whole_text(script_vocabs, rng, lower):
    tokenizer = graph.GraphTokenizer(script_vocabs[lower], lower, keep_special_tokens=lower)
    joints = (b"", b" ", "中".encode(), b" " * 3000, b"a" * 900)
    texts = [b"", *(rng.choice(joints).join(_strings(rng)) for _ in range(100))]
    expected = tokenizer.tokenize(tf.constant(texts)).to_list()
    for limit in (1, 4):
        actual = tokenizer.first_tokens(tf.constant(texts), limit).to_list()
        for text, ids, first in zip(texts, expected, actual, strict=True):
            assert first[:limit] == ids[:limit], text
        assert sum(map(len, actual)) < sum(map(len, expected)) / 2  # the texts were cut
    assert tokenizer.first_tokens(tf.constant([], tf.string), 3).to_list() == []


def _strings(rng):
    return [hard_strings.string(rng) for _ in range(rng.randint(1, 25))]


def test_no_rule_reaches_across_a_boundary():
    first, last = "㐀", "鿿"
    assert first in graph_normalization._IDEOGRAPHS and last in graph_normalization._IDEOGRAPHS
    for char in map(chr, [*range(0x3400, 0x4DC0), *range(0x4E00, 0xA000)]):
        assert normalization.properties(ord(char)) == ("i", "-", 0)
    for char in " \t\n\r":
        assert normalization.properties(ord(char)) == ("s", "-", 0)
