"""Token ids of texts, or pairs of texts, to what the model takes, in TensorFlow ops.

Letters: B examples, S positions.
"""

import tensorflow as tf

from bert_tf.errors import UserError

# [CLS] a [SEP] b [SEP] with one token in each text.
_SHORTEST = 5


def truncated_lengths(length_a, length_b, limit):
    """How much of two texts is left where the longer one always loses its last token.

    Both may keep half of the limit, the first one more if it is odd, and what the other leaves.

    Args:
      length_a: int32 (B,), number of tokens of the first text.
      length_b: int32 (B,), of the second.
      limit: the most that they may have together.

    Returns:
      (int32 (B,), int32 (B,))
    """
    half = limit // 2
    kept_a = tf.minimum(length_a, tf.maximum(limit - half, limit - length_b))
    kept_b = tf.minimum(length_b, tf.maximum(half, limit - length_a))
    return kept_a, kept_b


def pack(ids_a, ids_b, cls_id, sep_id, max_seq_length, pad_to_longest=False):
    """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in the release and padded with 0.

    Args:
      ids_a: ragged int32 (B, None), the first texts.
      ids_b: the second texts, or None. An empty one is as none: it has no [SEP].
      cls_id: the id of [CLS].
      sep_id: the id of [SEP].
      max_seq_length: the most positions.
      pad_to_longest: True for S to be the longest example's, False for S = `max_seq_length`.

    Returns:
      Dict of int32 (B, S): `input_ids`, `input_mask`, `segment_ids`.

    Raises:
      UserError: if `max_seq_length` leaves no room for two texts.
    """
    if max_seq_length < _SHORTEST:
        raise UserError(f"max_seq_length must be at least {_SHORTEST}, not {max_seq_length}")
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    if ids_b is None:
        ids_b = ids_a[:, :0]
    length_b = tf.cast(ids_b.row_lengths(), tf.int32)
    has_b = length_b > 0
    kept_a, kept_b = truncated_lengths(length_a, length_b, max_seq_length - 3)
    # Alone, the first text has the room of the second [SEP] as well.
    kept_a = tf.where(has_b, kept_a, tf.minimum(length_a, max_seq_length - 2))
    end_a = kept_a[:, None] + 1
    end_b = end_a + kept_b[:, None] + 1
    total = tf.where(has_b[:, None], end_b, end_a) + 1

    size = tf.maximum(tf.reduce_max(total), 2) if pad_to_longest else max_seq_length
    position = tf.range(size)[None, :]
    inside = position < total
    second = inside & (position > end_a)
    from_a = _gather(ids_a, position - 1, kept_a)
    from_b = _gather(ids_b, position - end_a - 1, kept_b)
    ids = tf.where(second, from_b, from_a)
    ids = tf.where((position == end_a) | (position == end_b) & has_b[:, None], sep_id, ids)
    ids = tf.where(position == 0, cls_id, ids)
    return {
        "input_ids": tf.where(inside, ids, 0),
        "input_mask": tf.cast(inside, tf.int32),
        "segment_ids": tf.cast(second, tf.int32),
    }


def _gather(ragged, columns, lengths):
    """Values of a ragged (B, None) at `columns` (B, S); 0 where a row has not that many."""
    first = tf.cast(ragged.row_starts(), tf.int32)[:, None]
    inside = (columns >= 0) & (columns < lengths[:, None])
    values = tf.concat([[0], ragged.values], 0)
    return tf.gather(values, tf.where(inside, first + columns + 1, 0))
