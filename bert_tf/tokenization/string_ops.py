"""TensorFlow helpers for batches of strings (B,)."""

import tensorflow as tf


def contains(texts, char_class):
    """Return whether strings (B,) contain a character of a class such as "[ab]", bool (B,)."""
    return tf.strings.regex_full_match(texts, f"(?s).*{char_class}.*")


def map_where(mask, function, texts):
    """Apply `function` to the strings (B,) where `mask` is True; keep the others."""

    def changed():
        return tf.tensor_scatter_nd_update(
            texts, tf.where(mask), function(tf.boolean_mask(texts, mask))
        )

    return tf.cond(tf.reduce_any(mask), changed, lambda: texts)


def drop_invalid_utf8(texts):
    def transcode(texts):
        return tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="ignore", replace_control_characters=False
        )

    # Most texts are plain ASCII and skip the conversion.
    not_ascii = ~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
    return map_where(not_ascii, transcode, texts)


def byte_starts(texts):
    """Return the byte offset of each string (B,) in their concatenation, int32 (B,)."""
    return tf.cumsum(tf.strings.length(texts), exclusive=True)


def concatenated_bytes(texts):
    return tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
