"""Layouts of a batch's tokens as rows, with padding or packed without it.

With `skip_padding`, the rows (T, H) of the layers are packed, and only the attention scores are
computed for padding. The outputs for tokens do not change. At padding, the layers return 0 and
the outputs of heads are undefined. The first position of a sequence must be a token.

Shapes: B batch, S sequence, H hidden, P positions, T rows.
"""

import copy
import functools
import math

import keras
from keras import ops

from bert_tf.modeling import cpu_graph

# The number of packed tokens is rounded up to a multiple of this by repeating the first token.
# oneDNN caches memory for each number of rows in a matrix product, so fewer numbers save memory.
_ROW_MULTIPLE = 16


def can_skip_padding(strategy, xla=False, reads_padding=False, is_requested=False):
    """Return whether a model should skip padding; `is_requested` extends this to all devices.

    This saves time on a CPU and is untested on GPUs. The number of tokens is not static, so XLA and
    TPUs cannot compile it.
    """
    import tensorflow as tf

    is_on_cpu = not isinstance(strategy, tf.distribute.TPUStrategy) and not cpu_graph.has_gpu()
    return (is_requested or is_on_cpu) and not xla and not reads_padding


def gather_tokens(x, positions):
    """Return the tokens of x (B, S, H) at the positions (B, P) of each sequence: (B * P, H)."""
    batch, length, hidden = ops.shape(x)
    if keras.backend.backend() == "jax":
        # Rows of the whole batch would be exchanged between the devices that it is divided over.
        tokens = ops.take_along_axis(x, ops.expand_dims(positions, -1), axis=1)
        return ops.reshape(tokens, (-1, hidden))
    # Not [:, None], which LiteRT does not support for an unknown length.
    first_rows = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    rows = first_rows + ops.cast(positions, "int32")
    return _take(ops.reshape(x, (-1, hidden)), ops.reshape(rows, (-1,)))


class TokenLayout:
    """The rows of a padded batch: all B * S positions; `shape` is (B, S)."""

    is_packed = False
    _positions = None

    def __init__(self, input_mask):
        self.shape = ops.shape(input_mask)

    def pack(self, x):
        """Return the rows (T, H) of x (B, S, H) or (B, S, N, H / N)."""
        return ops.reshape(x, (-1, math.prod(x.shape[2:])))

    def unpack(self, x, num_heads=None):
        """Return the rows x (T, H) as (B, S, H), with zeros for padding that is not in x.

        With `num_heads` N, return (B, S, N, H / N), with arbitrary rows of x for padding, which is
        faster.
        """
        hidden = x.shape[-1]
        sizes = (hidden,) if num_heads is None else (num_heads, hidden // num_heads)
        return ops.reshape(x, (*self.shape, *sizes))

    def for_positions(self, positions):
        """Return a copy for a layer that only computes the tokens at `positions` (B, P)."""
        layout = copy.copy(self)
        layout._positions = positions
        return layout

    @property
    def computed_layout(self):
        return self if self._positions is None else TokenLayout(self._positions)

    def select_computed(self, x):
        """Return the rows of x (T, H) that are in `computed_layout`."""
        return x if self._positions is None else self._gather(x)

    def _gather(self, x):
        return gather_tokens(self.unpack(x), self._positions)


class PackedLayout(TokenLayout):
    """The rows of a batch's tokens, without padding; `input_mask` is (B, S)."""

    is_packed = True

    def __init__(self, input_mask, training=True):
        super().__init__(input_mask)
        self._training = training
        is_token = ops.cast(ops.not_equal(ops.reshape(input_mask, (-1,)), 0), "int32")
        # The first row always counts as a token, because a replica's share of the last evaluation
        # batch may be all padding. It may also be empty.
        is_first = ops.equal(ops.arange(ops.shape(is_token)[0]), 0)
        is_token = ops.maximum(is_token, ops.cast(is_first, "int32"))
        places = ops.cast(ops.nonzero(is_token)[0], "int32")
        num_tokens, num_places = ops.shape(places)[0], ops.shape(is_token)[0]
        num_repeated = -num_tokens % _ROW_MULTIPLE
        # Without padding there is nothing to move, which saves 1 to 3 % of a training step.
        self._is_identity = ops.equal(num_tokens, num_places) & ops.equal(num_repeated, 0)
        repeated = ops.zeros((_ROW_MULTIPLE,), "int32")[:num_repeated]
        # The place (T,) of each token among the B * S positions.
        self._places = ops.concatenate([places, repeated], 0)
        # One plus the place, 0 for repetitions: no result depends on them, so their gradient is 0.
        self._read_places = ops.concatenate([places + 1, repeated], 0)
        # One plus the index of the token at each place (B * S,), 0 for padding.
        self._tokens = ops.cumsum(is_token) * is_token
        # The index of the token at each place, and of any token for padding.
        self._any_tokens = ops.maximum(self._tokens - 1, 0)

    def pack(self, x):
        return self._move(super().pack(x), _take, self._places, _take_or_zero, self._tokens)

    def unpack(self, x, num_heads=None):
        function, rows = _take_or_zero, self._tokens
        if num_heads is not None:
            function, rows = _take, self._any_tokens
        x = self._move(x, function, rows, _take_or_zero, self._read_places)
        return super().unpack(x, num_heads)

    def _gather(self, x):
        tokens = gather_tokens(ops.reshape(self._tokens, (*self.shape, 1)), self._positions)
        return _take_or_zero(x, ops.reshape(tokens, (-1,)))

    def _move(self, x, function, rows, gradient, gradient_rows):
        """Return `function(x, rows)`, with the gradient `gradient(upstream, gradient_rows)`.

        TensorFlow's gradient of `take` adds rows, which in bfloat16 takes as long as a product with
        an (H, H) matrix. This one copies them, which is the same if the gradient at padding is 0.
        It cannot be saved with a model.
        """
        if not self._training or not cpu_graph.is_traced():
            return function(x, rows)
        return cpu_graph.call_with_gradient(
            _with_gradient(function, gradient), x, rows, gradient_rows, self._is_identity
        )


def _take(x, rows):
    if keras.backend.backend() != "tensorflow":
        return ops.take(x, rows, axis=0)
    import tensorflow as tf

    # `ops.take` has six more operations, for negative indices.
    return tf.gather(x, rows)


def _take_or_zero(x, rows):
    """Return rows of x (T, H) by index plus one; 0 gives a row of zeros."""
    return _take(ops.pad(x, ((1, 0), (0, 0))), rows)


@functools.cache
def _with_gradient(function, gradient):
    def differentiable(x, rows, gradient_rows, is_identity):
        def move(function, x, rows):
            return ops.cond(is_identity, lambda: x, lambda: function(x, rows))

        def differentiate(upstream):
            return move(gradient, upstream, gradient_rows), None, None, None

        return move(function, x, rows), differentiate

    return differentiable
