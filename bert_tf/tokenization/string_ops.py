"""TensorFlow ops on batches of strings that the tokenizer in the graph uses.

Shapes: B texts.
"""

import tensorflow as tf


def contains(texts, char_class):
    """Return bool (B,): whether strings (B,) contain a character of a class such as "[ab]"."""
    return tf.strings.regex_full_match(texts, f"(?s).*{char_class}.*")


def map_where(mask, function, texts):
    """Apply `function` to those strings (B,) whose `mask` is True."""

    def changed():
        return tf.tensor_scatter_nd_update(
            texts, tf.where(mask), function(tf.boolean_mask(texts, mask))
        )

    return tf.cond(tf.reduce_any(mask), changed, lambda: texts)


def drop_invalid_utf8(texts):
    """Return strings (B,) without the bytes that are not UTF-8."""

    def transcode(texts):
        return tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="ignore", replace_control_characters=False
        )

    # Most texts are plain ASCII and skip the conversion.
    not_ascii = ~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
    return map_where(not_ascii, transcode, texts)


def byte_starts(texts):
    """Return int32 (B,): the offset in bytes of each of strings (B,) in their concatenation."""
    return tf.cumsum(tf.strings.length(texts), exclusive=True)


def concatenated_bytes(texts):
    """Return uint8: the bytes of the concatenation of strings (B,)."""
    return tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
