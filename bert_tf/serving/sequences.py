"""Sequence lengths and substrings inside the graph of a served model."""

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tokenization.graph_normalization import row_indices


class Buckets:
    """Rounds sequence lengths up to the next bucket; without buckets, lengths do not change.

    With fewer shapes, TensorFlow reuses more compiled code and memory, and TF Serving can batch
    requests of the same bucket.
    """

    def __init__(self, lengths, max_length):
        for length in lengths:
            if not 1 <= length <= max_length:
                raise UserError(
                    f"`sequence_buckets`: found {length}, expected lengths between 1 and "
                    f"`max_seq_length` ({max_length})"
                )
        self.lengths = tuple(sorted({*lengths, max_length})) if lengths else ()
        self.max_length = max_length

    def __call__(self, length):
        """Return the length to pad to, an int32 scalar."""
        if not self.lengths:
            return length
        lengths = tf.constant(self.lengths)
        return tf.gather(lengths, tf.searchsorted(lengths, [length])[0])

    def tokenize(self, tokenizer, *texts):
        """Return the inputs (B, S) from a `GraphTokenizer`, padded with zeros to a bucket."""
        batch = tokenizer(*texts, max_seq_length=self.max_length, pad_to_longest=True)
        if not self.lengths:
            return batch
        size = tf.shape(batch["input_ids"])[1]
        padding = tf.maximum(self(tf.minimum(size, self.max_length)) - size, 0)
        return {name: tf.pad(x, [[0, 0], [0, padding]]) for name, x in batch.items()}

    @property
    def warm_up_lengths(self):
        """Sequence lengths of warm-up requests: the buckets, or a few up to the maximum."""
        if self.lengths:
            return self.lengths
        return tuple(sorted({min(x, self.max_length) for x in (16, 64, self.max_length)}))


def substrings(texts, indices, starts, ends):
    """Return substrings (N,) of `texts[indices]` by character offsets, skipping invalid UTF-8."""
    characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")
    offsets = tf.cast(tf.gather(characters.row_starts(), indices), tf.int32)
    ranges = tf.ragged.range(offsets + starts, offsets + ends)
    selected = tf.gather(characters.values, ranges.values)
    # `reduce_join` of a ragged tensor would allocate N times the longest substring.
    return tf.strings.unsorted_segment_join(selected, row_indices(ends - starts), tf.size(starts))
