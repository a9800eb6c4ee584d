"""Choosing rows of a batch: a few tokens of each sequence, or all tokens without the padding.

Shapes: B batch, S sequence, H hidden, P positions, T tokens of a batch without padding.
"""

import functools

from keras import ops

from bert_tf.modeling import cpu_graph

# The number of tokens is rounded up to a multiple of this by repeating the first one. oneDNN caches
# memory for each number of rows that a matrix product has had, so few different numbers save it.
_ROW_MULTIPLE = 16


def gather_tokens(x, positions):
    """Return the tokens of x (B, S, H) at the positions (B, P) of each sequence: (B * P, H)."""
    batch, length, hidden = ops.shape(x)
    # Not by [:, None]: LiteRT has no such slices of an unknown length.
    first_rows = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    rows = first_rows + ops.cast(positions, "int32")
    return ops.take(ops.reshape(x, (-1, hidden)), ops.reshape(rows, (-1,)), axis=0)


class TokenRows:
    """Which of the B * S positions of a batch are tokens, to leave out padding.

    Args:
      input_mask: (B, S), 1 for tokens and 0 for padding.
      training: whether there will be gradients.
    """

    def __init__(self, input_mask, training=True):
        self._training = training
        self._shape = ops.shape(input_mask)
        is_token = ops.cast(ops.not_equal(ops.reshape(input_mask, (-1,)), 0), "int32")
        # The first row always counts as a token, so that there is one: a replica's share of the
        # last batch of an evaluation may be all padding. It may also be empty.
        is_first = ops.equal(ops.arange(ops.shape(is_token)[0]), 0)
        is_token = ops.maximum(is_token, ops.cast(is_first, "int32"))
        positions = ops.cast(ops.nonzero(is_token)[0], "int32")
        num_repeated = -ops.shape(positions)[0] % _ROW_MULTIPLE
        repeated = ops.zeros((_ROW_MULTIPLE,), "int32")[:num_repeated]
        # The position of each token (T,).
        self._positions = ops.concatenate([positions, repeated], 0)
        # One plus the positions, and 0 for the repeated token: no result depends on the
        # repetitions, so their gradient is 0.
        self._read_positions = ops.concatenate([positions + 1, repeated], 0)
        # One plus the index of the token at each position (B * S,), 0 for padding.
        self._tokens = ops.cumsum(is_token) * is_token

    def pack(self, x):
        """Return the tokens (T, H) of x (B, S, H) or (B * S, H)."""
        x = ops.reshape(x, (-1, x.shape[-1]))
        return self._move(x, _take, self._positions, _take_or_zero, self._tokens)

    def unpack(self, x, zero_padding=True):
        """Return (B * S, H) for the tokens x (T, H), with 0 for padding.

        Without `zero_padding`, which is faster, the rows of padding are those of another token: the
        result must not depend on them.
        """
        if zero_padding:
            return self._move(x, _take_or_zero, self._tokens, _take_or_zero, self._read_positions)
        rows = ops.maximum(self._tokens - 1, 0)
        return self._move(x, _take, rows, _take_or_zero, self._read_positions)

    def gather(self, x, positions):
        """Return `gather_tokens` of the tokens x (T, H): (B * P, H), 0 for padding."""
        tokens = gather_tokens(ops.reshape(self._tokens, (*self._shape, 1)), positions)
        return _take_or_zero(x, ops.reshape(tokens, (-1,)))

    def _move(self, x, function, rows, gradient, gradient_rows):
        """Return `function(x, rows)`, with the gradient `gradient(upstream, gradient_rows)`.

        TensorFlow's own gradient of `take` adds rows, which in bfloat16 takes as long as a product
        with an (H, H) matrix. This one copies them, with the same result where the gradient of
        padding is 0. Outside of training, where it could not be saved with the model, and outside
        of TensorFlow's graphs, that of `take` is used.
        """
        if not self._training or not cpu_graph.is_traced():
            return function(x, rows)
        return cpu_graph.call_with_gradient(
            _with_gradient(function, gradient), x, rows, gradient_rows
        )


def _take(x, rows):
    """Return rows of x (T, H)."""
    return ops.take(x, rows, axis=0)


def _take_or_zero(x, rows):
    """Return rows of x (T, H) by one plus their index, 0 for 0."""
    return ops.take(ops.pad(x, ((1, 0), (0, 0))), rows, axis=0)


@functools.cache
def _with_gradient(function, gradient):
    """Return `function` and its gradient for `cpu_graph.call_with_gradient`."""

    def differentiable(x, rows, gradient_rows):
        return function(x, rows), lambda upstream: (gradient(upstream, gradient_rows), None, None)

    return differentiable
