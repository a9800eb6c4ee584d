"""The graph tokenizer needs memory in proportion to the bytes that it uses."""

import contextlib

import pytest
import tensorflow as tf

graph = pytest.importorskip("bert_tf.tokenization.graph")
pytest.importorskip("tensorflow_text")


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
