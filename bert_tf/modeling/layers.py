"""The two layers of BERT: embeddings and the transformer layer.

Letters of shapes: B batch, S sequence, H hidden, N heads, D head width (H = N * D), V vocabulary.

Matrix products take their left side as (B*S, H): a plain two-dimensional product is what the
kernels of every device are best at, and the reshape costs nothing.
"""

import contextlib
import threading

import keras
from keras import ops

# The release adds this to the scores of masked positions. It is no infinity on purpose: a row that
# is masked everywhere stays a distribution.
MASKED_SCORE = -10000.0


def activation(name):
    """Returns the function for `hidden_act`. "gelu" is the tanh form, as in the release."""
    if name == "gelu":
        return gelu
    return keras.activations.get("gelu" if name == "gelu_erf" else name)


@keras.saving.register_keras_serializable("bert_tf")
def gelu(x):
    """GELU by its tanh approximation (Hendrycks and Gimpel, arXiv:1606.08415, section 2)."""
    return ops.gelu(x, approximate=True)


def initializer(config):
    """Truncated normal of the config's width, a new one for each weight."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def layer_norm(config, name, dtype):
    """Layer normalisation over H, variables `gamma` and `beta`."""
    return LayerNorm(epsilon=config.layer_norm_eps, name=name, dtype=dtype)


class LayerNorm(keras.layers.LayerNormalization):
    """Keras' layer in two thirds of its operations, in float32 as there."""

    def call(self, x):
        gamma, beta = (ops.cast(v, "float32") for v in (self.gamma, self.beta))
        x = ops.cast(x, "float32")
        x = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
        x = x * (ops.rsqrt(variance + self.epsilon) * gamma) + beta
        return ops.cast(x, self.compute_dtype)


_TRACING = threading.local()


@contextlib.contextmanager
def training_mode(salt=0, recompute=False):
    """Says how the models that this thread calls within it are to be trained.

    Args:
      salt: a whole number or an integer tensor; every dropout draws from another stream for each
        value. The state of a dropout is the same on all replicas of a strategy, so without it they
        would all draw the same mask. A strategy traces each replica in a thread of its own.
      recompute: whether to keep only the input of each transformer layer for the backward pass,
        and compute the rest of it again there (Chen et al., arXiv:1604.06174): less memory, about
        a third more time.
    """
    _TRACING.salt, _TRACING.recompute = salt, recompute
    try:
        yield
    finally:
        del _TRACING.salt, _TRACING.recompute


class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """Keras' seed generator, with the thread's salt in each seed (2,) that it gives."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        salt = getattr(_TRACING, "salt", None)
        if salt is None:
            return seed
        return seed + ops.stack([ops.cast(salt, seed.dtype), ops.zeros((), seed.dtype)])


class FixedSeedGenerator(keras.random.SeedGenerator):
    """A seed that is drawn already and stays the same, in the form that Keras' functions take."""

    def __init__(self, seed):
        self._drawn = seed  # and no variable, which the parent would make

    def next(self, ordered=True):
        return self._drawn


def _keep(shape, rate, seed):
    """Booleans of a shape, each False with probability `rate`, to within 2**-17.

    Random numbers are the dear part of dropout on a CPU, so each of 32 bits decides on two values.
    """
    axis = next((i for i, n in enumerate(shape) if isinstance(n, int) and n % 2 == 0), None)
    if axis is None:
        return keras.random.uniform(shape, seed=seed) >= rate
    shape = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
    bits = keras.random.randint(shape, -(2**31), 2**31 - 1, seed=seed)
    limit = round(rate * 2**16)
    halves = bits >= (limit - 2**15) * 2**16, ops.bitwise_and(bits, 2**16 - 1) >= limit
    return ops.concatenate(halves, axis=axis)


class Dropout(keras.layers.Layer):
    """Dropout (in training only) whose masks differ from replica to replica."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = ReplicaSeedGenerator() if rate > 0 else None

    def draw(self):
        """A seed for `call`; None if nothing is dropped."""
        return FixedSeedGenerator(self.seed_generator.next()) if self.rate else None

    def call(self, x, training=False, seed=None):
        """Drops with `seed` if it is given, so that what is computed twice has the same mask."""
        if not training or not self.rate:
            return x
        keep = _keep(ops.shape(x), self.rate, seed or self.seed_generator)
        return x * (ops.cast(keep, x.dtype) * ops.cast(1.0 / (1.0 - self.rate), x.dtype))


class Embeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings, normalised (BERT paper, section 3, figure 2).

    Call: `input_ids` and `segment_ids` (B, S) int32 -> (B, S, H).
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm(config, "LayerNorm", self.dtype_policy)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy)

    def build(self, *_):
        """Makes the three tables: (V, H), (segments, H), (positions, H)."""
        config = self.config
        for name, rows in (
            ("word_embeddings", config.vocab_size),
            ("token_type_embeddings", config.type_vocab_size),
            ("position_embeddings", config.max_position_embeddings),
        ):
            table = self.add_weight(
                shape=(rows, config.hidden_size),
                initializer=initializer(config),
                name=name,
                # Else mixed precision would cast the whole table, and add up the gradients of a
                # word's places in bfloat16, to look up a few rows.
                autocast=False,
            )
            setattr(self, name, table)
        self.norm.build((None, None, config.hidden_size))

    def call(self, input_ids, segment_ids, training=False):
        length = ops.shape(input_ids)[1]
        limit = self.config.max_position_embeddings
        if isinstance(length, int) and length > limit:
            raise ValueError(f"sequences of {length} tokens, but the model has {limit} positions")
        x = ops.cast(ops.take(self.word_embeddings, input_ids, axis=0), self.compute_dtype)
        # There are few segments: a product with one-hot rows is quicker to differentiate than a
        # gather, whose gradient adds B*S rows into the same two.
        one_hot = ops.one_hot(segment_ids, self.config.type_vocab_size, dtype=self.compute_dtype)
        x = x + ops.matmul(one_hot, ops.cast(self.token_type_embeddings, self.compute_dtype))
        x = x + ops.cast(self.position_embeddings, self.compute_dtype)[:length]
        return self.dropout(self.norm(x), training=training)


class TransformerLayer(keras.layers.Layer):
    """Self-attention and feed-forward, each with residual and post-normalisation.

    "Attention is all you need" (arXiv:1706.03762), section 3.1, encoder.

    Call: `x` (B, S, H) and `input_mask` (B, S), 1 for real tokens -> (B, S, H), or with
    `with_probs` a pair of that and the attention probabilities (B, N, S, S).
    """

    def __init__(self, config, with_probs=False, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.with_probs = with_probs

        def dense(units, name, act=None):
            return keras.layers.Dense(
                units,
                activation=act,
                kernel_initializer=initializer(config),
                dtype=self.dtype_policy,
                name=name,
            )

        hidden = config.hidden_size
        self.query = dense(hidden, "query")
        self.key = dense(hidden, "key")
        self.value = dense(hidden, "value")
        self.attention_dense = dense(hidden, "attention_dense")
        self.attention_norm = layer_norm(config, "attention_norm", self.dtype_policy)
        self.intermediate = dense(
            config.intermediate_size, "intermediate", activation(config.hidden_act)
        )
        self.output_dense = dense(hidden, "output_dense")
        self.output_norm = layer_norm(config, "output_norm", self.dtype_policy)

        def dropout(rate):
            return Dropout(rate, dtype=self.dtype_policy)

        self.probs_dropout = dropout(config.attention_probs_dropout_prob)
        self.attention_dropout = dropout(config.hidden_dropout_prob)
        self.output_dropout = dropout(config.hidden_dropout_prob)

    def build(self, *_):
        hidden = (None, self.config.hidden_size)
        for layer in (
            self.query,
            self.key,
            self.value,
            self.attention_dense,
            self.attention_norm,
            self.intermediate,
            self.output_norm,
        ):
            layer.build(hidden)
        self.output_dense.build((None, self.config.intermediate_size))

    def call(self, x, input_mask, training=False):
        # Drawn out here: a forward pass that is computed again must not draw again.
        dropouts = (self.probs_dropout, self.attention_dropout, self.output_dropout)
        seeds = [dropout.draw() if training else None for dropout in dropouts]
        if training and getattr(_TRACING, "recompute", False):
            return keras.remat(lambda x: self._forward(x, input_mask, training, seeds))(x)
        return self._forward(x, input_mask, training, seeds)

    def _forward(self, x, input_mask, training, seeds):
        batch, length, hidden = ops.shape(x)[0], ops.shape(x)[1], self.config.hidden_size
        x = ops.reshape(x, (-1, hidden))
        context, probs = self._attend(x, input_mask, batch, length, training, seeds[0])
        context = self.attention_dense(context)
        x = self.attention_norm(
            x + self.attention_dropout(context, training=training, seed=seeds[1])
        )
        wide = self.output_dense(self.intermediate(x))
        x = self.output_norm(x + self.output_dropout(wide, training=training, seed=seeds[2]))
        x = ops.reshape(x, (batch, length, hidden))
        return (x, probs) if self.with_probs else x

    def _attend(self, x, input_mask, batch, length, training, seed):
        """Scaled dot-product attention: x (B*S, H) -> context (B*S, H), probs (B, N, S, S)."""
        heads = self.config.num_attention_heads
        width = self.config.hidden_size // heads

        def split(y):  # (B*S, H) -> (B, N, S, D)
            return ops.transpose(ops.reshape(y, (batch, length, heads, width)), (0, 2, 1, 3))

        query = split(self.query(x))
        scores = ops.matmul(query, ops.transpose(split(self.key(x)), (0, 1, 3, 2)))
        # Not by [:, None]: LiteRT has no such slices of an unknown length.
        hidden_keys = 1.0 - ops.expand_dims(ops.cast(input_mask, self.compute_dtype), (1, 2))
        # In this order product, scale and mask become one kernel on a CPU.
        probs = ops.softmax(scores * (width**-0.5) + hidden_keys * MASKED_SCORE)
        kept = self.probs_dropout(probs, training=training, seed=seed)
        context = ops.transpose(ops.matmul(kept, split(self.value(x))), (0, 2, 1, 3))
        return ops.reshape(context, (-1, self.config.hidden_size)), probs
