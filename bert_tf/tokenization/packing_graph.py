"""The rules of `packing` as TensorFlow ops.

Shapes: B texts, T tokens of all texts, W windows of all texts, R rows (selected texts or windows),
S sequence length.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization.graph_normalization import row_indices
from bert_tf.tokenization.settings import CLS, SEP

# Number of windows per call of the model, to limit the memory for long texts.
_WINDOWS_PER_STEP = 32


class Segment(NamedTuple):
    """A range of tokens for each row: R rows start at `first` and have `length` tokens.

    `values`, int32 (T + 1,), has the ids of all tokens, and a dummy so that it is never empty.
    """

    values: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor

    @classmethod
    def of(cls, ragged, rows=None):
        """Return the rows of a ragged tensor (B, None), optionally only `rows`, indices (R,)."""
        first, length = (tf.cast(x, tf.int32) for x in (ragged.row_starts(), ragged.row_lengths()))
        segment = cls(tf.concat([ragged.values, [0]], 0), first, length)
        return segment if rows is None else segment.take(rows)

    def take(self, rows):
        """Return the segment restricted to `rows`, int32 indices."""
        return Segment(self.values, tf.gather(self.first, rows), tf.gather(self.length, rows))

    def find(self, positions):
        """Return whether positions (R, S) are in the segment, and indices in `values` (or 0)."""
        is_inside = (positions >= 0) & (positions < self.length[:, None])
        return is_inside, tf.where(is_inside, self.first[:, None] + positions, 0)


def truncate_pair(first, second, max_seq_length):
    """Truncate two `Segment`s as `packing.truncate_pair`; an empty second text needs no [SEP].

    Each text may use half of the tokens (the first text one more if their number is odd), and the
    rest of the other half.
    """
    limit = tf.where(second.length > 0, max_seq_length - 3, max_seq_length - 2)
    half = limit // 2
    kept_a = tf.minimum(first.length, tf.maximum(limit - half, limit - second.length))
    kept_b = tf.minimum(second.length, tf.maximum(half, limit - first.length))
    return first._replace(length=kept_a), second._replace(length=kept_b)


def pack(vocab, size, first, second=None):
    """Pack `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b is not empty, padded with 0.

    `size` is S, or a function from the length of the longest row to S. Returns a dict of int32
    (R, S): `input_ids`, `input_mask`, `segment_ids`.
    """
    end = total = first.length[:, None] + 2
    if second is not None:
        b_length = second.length[:, None]
        total = tf.where(b_length > 0, end + b_length + 1, end)
    position = tf.range(size(tf.reduce_max(total)) if callable(size) else size)[None, :]
    is_token, is_second = position < total, (position >= end) & (position < total)
    is_inside, indices = first.find(position - 1)
    ids = tf.where(is_inside, tf.gather(first.values, indices), 0)
    if second is not None:
        is_inside, indices = second.find(position - end)
        ids = tf.where(is_inside, tf.gather(second.values, indices), ids)
    ids = tf.where((position == end - 1) | (position == total - 1), vocab[SEP], ids)
    return {
        "input_ids": tf.where(position == 0, vocab[CLS], ids),
        "input_mask": tf.cast(is_token, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }


class Windows:
    """Overlapping windows over a batch of texts, as in `packing.SlidingWindows`.

    `counts` (B,) has the number of windows of each text. `texts`, `first` and `length`, int32 (W,),
    have each window's text, its first token in the text, and its number of tokens.
    """

    def __init__(self, tokens, max_lengths, stride, max_windows=None, keep_empty=False):
        """Compute the windows of `tokens`, ragged int32 (B, None).

        They have at most `max_lengths` tokens, int32 (B,) or (). With `keep_empty`, a text without
        tokens has an empty window instead of none.
        """
        num_tokens = tf.cast(tokens.row_lengths(), tf.int32)
        max_lengths = tf.broadcast_to(max_lengths, tf.shape(num_tokens))
        steps = tf.minimum(max_lengths, stride)
        self.counts = 1 + tf.maximum(num_tokens - max_lengths + steps - 1, 0) // steps
        if max_windows is not None:
            self.counts = tf.minimum(self.counts, max_windows)
        if not keep_empty:
            self.counts = tf.where(num_tokens > 0, self.counts, 0)
        self.texts = row_indices(self.counts)
        number = tf.range(tf.size(self.texts))
        self._number = number - tf.gather(tf.cumsum(self.counts, exclusive=True), self.texts)
        self._num_tokens, self._max_length, self._step = (
            tf.gather(x, self.texts) for x in (num_tokens, max_lengths, steps)
        )
        self.first = self._number * self._step
        self.length = tf.minimum(self._num_tokens - self.first, self._max_length)
        self._tokens = Segment.of(tokens, self.texts)

    def segment(self, windows):
        """Return the tokens of `windows`, int32 (R,) indices, as a `Segment`."""
        first = tf.gather(self._tokens.first + self.first, windows)
        return Segment(self._tokens.values, first, tf.gather(self.length, windows))

    def map(self, read, specs):
        """Apply `read` to the indices of a few windows at a time, and concatenate its results."""
        # An eager array without elements cannot be concatenated.
        if tf.executing_eagerly() and not tf.config.functions_run_eagerly():
            return tf.function(lambda: self.map(read, specs), autograph=False)()
        count = tf.size(self.texts)
        num_steps = (count + _WINDOWS_PER_STEP - 1) // _WINDOWS_PER_STEP
        arrays = (
            tf.TensorArray(dtype, num_steps, infer_shape=False, element_shape=shape)
            for dtype, shape in specs
        )

        def take_step(step, *results):
            begin = step * _WINDOWS_PER_STEP
            values = read(tf.range(begin, tf.minimum(count, begin + _WINDOWS_PER_STEP)))
            written = (x.write(step, value) for x, value in zip(results, values, strict=True))
            return step + 1, *written

        # A loop of Python would need AutoGraph.
        start = (tf.constant(0), *arrays)
        _, *results = tf.while_loop(lambda step, *_: step < num_steps, take_step, start)
        return [array.concat() for array in results]

    def is_max_context(self, windows, positions):
        """Return whether `positions` (R, S) in `windows` (R,) have their maximum context."""
        number, first, num_tokens, max_length, step = (
            tf.gather(x, windows)[:, None]
            for x in (self._number, self.first, self._num_tokens, self._max_length, self._step)
        )

        def score_in(shift):
            """Score each token in the window `shift` windows later; -1 if it is not there."""
            begin = first + shift * step
            length = tf.minimum(num_tokens - begin, max_length)
            position = positions - shift * step
            # In float64, like the release's Python floats.
            score = tf.cast(tf.minimum(position, length - 1 - position), tf.float64)
            score += 0.01 * tf.cast(length, tf.float64)
            exists = (number + shift >= 0) & (begin < num_tokens)
            # A window that reaches the end of the text is the last one.
            exists &= (shift <= 0) | (begin - step + max_length < num_tokens)
            return tf.where(exists & (position >= 0) & (position < length), score, -1.0)

        score = score_in(0)
        # From window to window, a token's score rises and then falls, so it is enough to compare
        # with both neighbors.
        return (score > score_in(-1)) & (score >= score_in(1))
