"""The rules of `packing` as TensorFlow ops.

Shapes: B texts, W windows of all texts, R rows (some of these), S positions of a row, T tokens of
all texts.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization.graph_normalization import row_indices
from bert_tf.tokenization.special_tokens import CLS, SEP

# The model reads this number of windows at a time, so that memory does not grow with the texts.
_WINDOWS_PER_STEP = 32


class Segment(NamedTuple):
    """Consecutive tokens for each row.

    Attributes:
      values: int32 (T + 1,), the ids of all tokens, and a dummy so that it is never empty.
      first: int32 (R,), the index of the first token of each row.
      length: int32 (R,), the number of tokens of each row.
    """

    values: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor

    @classmethod
    def of(cls, ragged, rows=None):
        """Return the rows of a ragged tensor (B, None), all or those of some indices (R,)."""
        first, length = (
            tf.cast(x, tf.int32) if rows is None else tf.gather(tf.cast(x, tf.int32), rows)
            for x in (ragged.row_starts(), ragged.row_lengths())
        )
        return cls(tf.concat([ragged.values, [0]], 0), first, length)

    def take(self, rows):
        """Return the segment of some rows, int32 indices."""
        return Segment(self.values, tf.gather(self.first, rows), tf.gather(self.length, rows))

    def find(self, positions):
        """Find the tokens at positions (R, S) relative to the first token of the segment.

        Returns:
          (whether the position is in the segment, bool (R, S); the index of its token among all
          tokens, 0 outside of the segment, int32 (R, S))
        """
        is_inside = (positions >= 0) & (positions < self.length[:, None])
        return is_inside, tf.where(is_inside, self.first[:, None] + positions, 0)


def truncated_lengths(length_a, length_b, limit):
    """Return how many tokens of two texts are left if the longer one always loses its last token.

    Each may keep half of the limit for both together (the first text one more if the limit is odd),
    and what the other leaves. Lengths are int32 (B,).
    """
    half = limit // 2
    kept_a = tf.minimum(length_a, tf.maximum(limit - half, limit - length_b))
    kept_b = tf.minimum(length_b, tf.maximum(half, limit - length_a))
    return kept_a, kept_b


def truncate_pair(first, second, max_seq_length):
    """Return two `Segment`s truncated as in the release; an empty second text does not count."""
    kept_a, kept_b = truncated_lengths(first.length, second.length, max_seq_length - 3)
    # A single text needs only one [SEP].
    kept = tf.where(second.length > 0, kept_a, tf.minimum(first.length, max_seq_length - 2))
    return first._replace(length=kept), second._replace(length=kept_b)


def pack(vocab, size, first, second=None):
    """Pack `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b is not empty, padded with 0.

    Args:
      vocab: mapping from token to id.
      size: S, or a function that computes S from the number of tokens of the longest row.
      first: the `Segment` of a.
      second: the `Segment` of b, None if there is none.

    Returns:
      Dict of int32 (R, S): `input_ids`, `input_mask`, `segment_ids`.
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
    """The overlapping windows that texts of any length are read in, as in `packing.SlidingWindows`.

    Attributes:
      counts: int32 (B,), number of windows of each text.
      texts: int32 (W,), index of each window's text.
      first: int32 (W,), index of each window's first token in its text.
      length: int32 (W,), number of tokens of each window.
    """

    def __init__(self, tokens, max_lengths, stride, max_windows=None, keep_empty=False):
        """Compute the windows.

        Args:
          tokens: ragged int32 (B, None), the ids of the tokens of each text.
          max_lengths: int32 (B,) or (), maximum number of tokens in a window of each text.
          stride: number of tokens from the start of one window to the start of the next.
          max_windows: the largest number of windows of a text, None for any.
          keep_empty: whether a text without tokens has an empty window, instead of none.
        """
        num_tokens = tf.cast(tokens.row_lengths(), tf.int32)
        max_lengths = tf.broadcast_to(max_lengths, tf.shape(num_tokens))
        steps = tf.minimum(max_lengths, stride)
        num_following = tf.maximum(num_tokens - max_lengths + steps - 1, 0) // steps
        self.counts = 1 + num_following
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
        """Return the tokens of windows, int32 (R,) indices, as a `Segment`."""
        first = tf.gather(self._tokens.first + self.first, windows)
        return Segment(self._tokens.values, first, tf.gather(self.length, windows))

    def map(self, read, specs):
        """Return tensors for all windows, computed for some windows at a time.

        Args:
          read: function from int32 (R,), indices of windows, to a sequence of tensors.
          specs: for each of these tensors its type and shape.
        """
        count = tf.size(self.texts)
        num_steps = (count + _WINDOWS_PER_STEP - 1) // _WINDOWS_PER_STEP
        results = [
            tf.TensorArray(dtype, num_steps, infer_shape=False, element_shape=shape)
            for dtype, shape in specs
        ]
        for step in tf.range(num_steps):
            begin = step * _WINDOWS_PER_STEP
            values = read(tf.range(begin, tf.minimum(count, begin + _WINDOWS_PER_STEP)))
            results = [
                array.write(step, value) for array, value in zip(results, values, strict=True)
            ]
        return [array.concat() for array in results]

    def is_max_context(self, windows, positions):
        """Return whether tokens have their maximum context in these windows: bool (R, S).

        Args:
          windows: int32 (R,), indices of windows.
          positions: int32 (R, S), indices of tokens in their window; others give False.
        """
        number, first, num_tokens, max_length, step = (
            tf.gather(x, windows)[:, None]
            for x in (self._number, self.first, self._num_tokens, self._max_length, self._step)
        )

        def score_in(shift):
            """Score the token in the window `shift` windows later, or -1 if it is not in it."""
            begin = first + shift * step
            length = tf.minimum(num_tokens - begin, max_length)
            position = positions - shift * step
            # float64, as Python computes the score of the release.
            score = tf.cast(tf.minimum(position, length - 1 - position), tf.float64)
            score += 0.01 * tf.cast(length, tf.float64)
            exists = (number + shift >= 0) & (begin < num_tokens)
            # No window follows one that reaches the end of the text.
            exists &= (shift <= 0) | (begin - step + max_length < num_tokens)
            return tf.where(exists & (position >= 0) & (position < length), score, -1.0)

        score = score_in(0)
        # From window to window the score of a token rises and then falls, so it is the largest if
        # both neighbours have less.
        return (score > score_in(-1)) & (score >= score_in(1))
