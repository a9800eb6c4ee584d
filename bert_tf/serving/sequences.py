"""Padding, windows and substrings inside the graph of a served model.

Shapes: B texts, W windows of all texts, R a selection of windows, S positions of a window.
"""

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tokenization.graph_normalization import row_indices

# The model reads this number of windows at a time, so that memory does not grow with the texts.
_WINDOWS_PER_STEP = 32


class Buckets:
    """Rounds sequence lengths up to one of a few, or leaves them unchanged.

    With few lengths, batches repeat their shapes: TensorFlow reuses what it compiled or allocated
    for a shape, and TF Serving can put requests of one bucket into one batch.
    """

    def __init__(self, lengths, max_length):
        """Store the lengths to round up to; empty to pad to the longest sequence of a batch.

        The model's `max_seq_length`, `max_length`, is always one of the buckets.

        Raises:
          UserError: if a length is not between 1 and `max_length`.
        """
        for length in lengths:
            if not 1 <= length <= max_length:
                raise UserError(
                    f"`sequence_buckets`: {length} was given, but lengths from 1 to {max_length} "
                    "(`max_seq_length`) were expected"
                )
        self.lengths = tuple(sorted({*lengths, max_length})) if lengths else ()
        self.max_length = max_length

    def __call__(self, length):
        """Return the length to pad to: int32 scalar -> int32 scalar."""
        if not self.lengths:
            return length
        lengths = tf.constant(self.lengths)
        return tf.gather(lengths, tf.searchsorted(lengths, [length])[0])

    def tokenize(self, tokenizer, *texts):
        """Return the inputs (B, S) that a `GraphTokenizer` makes of texts, padded with zeros."""
        batch = tokenizer(*texts, max_seq_length=self.max_length, pad_to_longest=True)
        if not self.lengths:
            return batch
        size = tf.shape(batch["input_ids"])[1]
        padding = tf.maximum(self(tf.minimum(size, self.max_length)) - size, 0)
        return {name: tf.pad(x, [[0, 0], [0, padding]]) for name, x in batch.items()}

    @property
    def warm_up_lengths(self):
        """Lengths to warm a model up with: the buckets, or a few up to the maximum."""
        if self.lengths:
            return self.lengths
        return tuple(sorted({min(x, self.max_length) for x in (16, 64, self.max_length)}))


class Windows:
    """The overlapping windows that texts of any length are read in, as in `tasks.windows`.

    Attributes:
      counts: int32 (B,), number of windows of each text.
      texts: int32 (W,), index of each window's text.
      first: int32 (W,), index of each window's first token in its text.
      length: int32 (W,), number of tokens of each window.
    """

    def __init__(self, num_tokens, max_lengths, stride, max_windows=None, keep_empty=False):
        """Compute the windows.

        Args:
          num_tokens: int32 (B,), number of tokens of each text.
          max_lengths: int32 (B,), maximum number of tokens in a window of each text.
          stride: number of tokens from the start of one window to the start of the next.
          max_windows: the largest number of windows of a text, None for any.
          keep_empty: whether a text without tokens has an empty window, instead of none.
        """
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


def substrings(texts, indices, starts, ends):
    """Return substrings of texts, by character offsets; bytes that are not UTF-8 do not count.

    Each text is split into characters once, however many substrings it has.

    Args:
      texts: string (B,).
      indices: int32 (N,), index of the text of each substring.
      starts: int32 (N,), offset of its first character.
      ends: int32 (N,), offset after its last character.

    Returns:
      string (N,)
    """
    characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")
    offsets = tf.cast(tf.gather(characters.row_starts(), indices), tf.int32)
    ranges = tf.ragged.range(offsets + starts, offsets + ends)
    selected = tf.gather(characters.values, ranges.values)
    # `reduce_join` of a ragged tensor would allocate N times the longest substring.
    return tf.strings.unsorted_segment_join(selected, row_indices(ends - starts), tf.size(starts))
