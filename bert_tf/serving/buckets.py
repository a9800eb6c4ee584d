"""Lengths that a served model pads its sequences to."""

import tensorflow as tf

from bert_tf.errors import UserError


class Buckets:
    """Rounds lengths up to one of a few, or leaves them as they are.

    With few lengths a batch is more alike the next: what is compiled or laid out for a length is
    used again, and requests of a bucket fit into one batch of TF Serving.
    """

    def __init__(self, lengths, longest):
        """Takes the lengths, none of them to pad to the longest of a batch, and the limit.

        Raises:
          UserError: if one is not from 1 to `longest`, the model's `max_seq_length`.
        """
        for length in lengths:
            if not 1 <= length <= longest:
                raise UserError(
                    f"`sequence_buckets`: {length}, but sequences have 1 to {longest} tokens"
                )
        # The longest sequences must fit too.
        self.lengths = tuple(sorted({*lengths, longest})) if lengths else ()
        self.longest = longest

    def __call__(self, length):
        """The length to pad to: int32 scalar -> int32 scalar."""
        if not self.lengths:
            return length
        lengths = tf.constant(self.lengths)
        return tf.gather(lengths, tf.searchsorted(lengths, [length])[0])

    def pad(self, batch):
        """Pads a dict of (B, S) with 0."""
        if not self.lengths:
            return batch
        size = tf.shape(batch["input_ids"])[1]
        more = tf.maximum(self(tf.minimum(size, self.longest)) - size, 0)
        return {name: tf.pad(x, [[0, 0], [0, more]]) for name, x in batch.items()}

    @property
    def samples(self):
        """Lengths to try a model with: the buckets, or a few up to the limit."""
        return self.lengths or tuple(sorted({min(x, self.longest) for x in (16, 64, self.longest)}))
