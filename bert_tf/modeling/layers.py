"""The layers of the encoder: embeddings, the transformer layer and dropout.

Shapes: B batch, S sequence, H hidden, N heads, D width of a head (H = N * D), V vocabulary, T rows.

Layers compute on rows (T, H), which a `TokenLayout` maps to tokens, because two-dimensional matrix
products are fastest on every device.
"""

import keras
import numpy as np
from keras import ops

from bert_tf.modeling import attention, cpu_graph
from bert_tf.modeling.base import CALL_ARGUMENTS, ConfigLayer, register
from bert_tf.modeling.token_layout import TokenLayout

# The release adds this to the attention scores of padding. It is finite, so that the softmax is
# defined even if a row has only padding.
MASKED_SCORE = -10000.0


def activation(name):
    """Return the function for `hidden_act`; "gelu" is the tanh approximation, as in the release."""
    if name == "gelu":
        return gelu
    return keras.activations.get("gelu" if name == "gelu_erf" else name)


@register
def gelu(x):
    """GELU by its tanh approximation (Hendrycks and Gimpel, arXiv:1606.08415, section 2)."""
    return ops.gelu(x, approximate=True)


def initializer(config):
    """Return a truncated normal initializer with the config's standard deviation."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(config, units, name, dtype, **options):
    """Return a dense layer with the config's initializer."""
    return Dense(units, kernel_initializer=initializer(config), name=name, dtype=dtype, **options)


def layer_norm(config, name, dtype):
    """Return a layer normalization over H."""
    return LayerNorm(epsilon=config.layer_norm_eps, name=name, dtype=dtype)


@register
class Dense(keras.layers.Dense):
    """Keras' dense layer, which also saves the LoRA matrices.

    Keras merges them into the saved kernel and loads zeros, which leaves them without gradients.
    """

    # The class must have the same name as Keras' layer, under which weights are saved.

    @property
    def trainable(self):
        """Whether the layer is trained; LoRA freezes its kernel."""
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        keras.layers.Dense.trainable.fset(self, value)
        if self.lora_enabled:
            self._kernel.trainable = False

    def build(self, input_shape):
        lora_alpha = self.lora_alpha
        super().build(input_shape)
        if self.lora_enabled:
            self.lora_alpha = lora_alpha  # Keras resets it to the rank

    def quantize(self, mode=None, type_check=True, config=None):
        super().quantize(mode, type_check=False, config=config)

    def save_own_variables(self, store):
        has_lora = self.lora_enabled
        self.lora_enabled = False  # so that Keras saves the unmerged kernel
        try:
            super().save_own_variables(store)
        finally:
            self.lora_enabled = has_lora
        if has_lora:
            store["lora_kernel_a"], store["lora_kernel_b"] = self.lora_kernel_a, self.lora_kernel_b

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if self.lora_enabled and "lora_kernel_a" in store.keys():  # noqa: SIM118, an HDF5 entry
            self.lora_kernel_a.assign(store["lora_kernel_a"])
            self.lora_kernel_b.assign(store["lora_kernel_b"])


@register
class LayerNorm(keras.layers.LayerNormalization):
    """Keras' layer normalization in float32, with fewer operations."""

    def call(self, x, training=False, layout=None):
        dtype = keras.backend.standardize_dtype(x.dtype)
        uses_cpu_graph = layout is not None and layout.is_packed and cpu_graph.is_traced()
        is_fused = not training and dtype != "float64" and not cpu_graph.is_portable()
        if uses_cpu_graph and is_fused and not cpu_graph.has_gpu():
            gamma, beta = (ops.cast(v, dtype) for v in (self.gamma, self.beta))
            x = cpu_graph.inference_layer_norm(x, gamma, beta, self.epsilon)
            return ops.cast(x, self.compute_dtype)
        x, gamma, beta = (ops.cast(v, "float32") for v in (x, self.gamma, self.beta))
        if uses_cpu_graph and training:
            x = cpu_graph.layer_norm(x, gamma, beta, self.epsilon)
        else:
            x = x - ops.mean(x, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
            x = x * (ops.rsqrt(variance + self.epsilon) * gamma) + beta
        return ops.cast(x, self.compute_dtype)


class FixedSeedGenerator(keras.random.SeedGenerator):
    """Wraps a seed tensor (2,) for `keras.random` functions."""

    def __init__(self, seed):
        self._seed_tensor = seed  # The parent's constructor would create a variable.

    def next(self, ordered=True):
        return self._seed_tensor


def _keep_mask(shape, rate, seed):
    """Return booleans of the given shape, False with probability `rate` to within 2**-17.

    Random numbers take most of dropout's time on a CPU, so each 32-bit number gives two values.
    They are unsigned, because TensorFlow handles int32 tensors of a GPU on the host.
    """
    seed = FixedSeedGenerator(seed)
    if not (axes := [i for i, n in enumerate(shape) if isinstance(n, int) and n % 2 == 0]):
        return keras.random.uniform(shape, seed=seed) >= rate
    is_jax = keras.backend.backend() == "jax"
    axis = axes[-1 if is_jax else 0]  # JAX divides the first axis, the batch, among devices
    half = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
    bits = keras.random.randint(half, -(2**31), 2**31 - 1, seed=seed)
    bits = ops.cast(bits, "uint32")
    limit = round(rate * 2**16)
    if is_jax:  # its gradient would keep halves in place of booleans
        low, high = bits % 2**16, bits // 2**16
        return ops.concatenate([low >= limit, high >= limit], axis)
    import tensorflow as tf

    # `ops.view` takes eight more operations than `tf.bitcast`.
    return ops.reshape(tf.bitcast(bits, "uint16"), shape) >= ops.cast(limit, "uint16")


@register
class Dropout(keras.layers.Layer):
    """Dropout in training, with different masks on each replica.

    Call: `x` of any shape; `training`; `replica_id`, see `base`; `seed`, a result of
    `draw_seed`, None to draw one.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator() if rate > 0 else None
        self.built = True
        self._register_call_context_args(*CALL_ARGUMENTS)

    def draw_seed(self, replica_id=None):
        """Return the next seed (2,) of a replica's stream, None if the rate is 0."""
        if not self.rate:
            return None
        seed = self.seed_generator.next()
        if replica_id is None:
            return seed
        return seed + ops.stack([ops.cast(replica_id, seed.dtype), ops.zeros((), seed.dtype)])

    def call(self, x, training=False, replica_id=None, seed=None):
        if not training or not self.rate:
            return x
        seed = self.draw_seed(replica_id) if seed is None else seed
        keep = _keep_mask(ops.shape(x), self.rate, seed)
        return x * (ops.cast(keep, x.dtype) * ops.cast(1.0 / (1.0 - self.rate), x.dtype))


@register
class Embeddings(ConfigLayer):
    """Sum of word, segment and position embeddings, normalized (BERT paper, section 3, figure 2).

    If their width E differs from H, they are projected to H (ELECTRA, arXiv:2003.10555).

    Call: `input_ids` and `segment_ids` (B, S) int32; `training`, `replica_id` -> (B, S, H).

    >>> config = bert_tf.BertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
    >>> ids = np.array([[5, 6, 7]])
    >>> bert_tf.modeling.Embeddings(config)(ids, segment_ids=0 * ids).shape
    TensorShape([1, 3, 32])
    """

    def __init__(self, config, name="embeddings", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.norm = layer_norm(config, "LayerNorm", self.dtype_policy)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.projection = None
        if config.embedding_size != config.hidden_size:
            self.projection = dense(config, config.hidden_size, "projection", self.dtype_policy)

    def build(self, *_):
        config = self.config
        tables = {"word_embeddings": config.vocab_size}
        if config.has_segment_embeddings:
            tables["token_type_embeddings"] = config.type_vocab_size
        tables["position_embeddings"] = config.max_position_embeddings
        for name, rows in tables.items():
            shape = (rows, config.embedding_size)
            # With `autocast`, mixed precision would cast the whole table for a few rows, and sum
            # the gradients of repeated words in bfloat16.
            table = self.add_weight(shape, initializer(config), name=name, autocast=False)
            setattr(self, name, table)
        self.norm.build((None, None, config.embedding_size))
        if self.projection is not None:
            self.projection.build((None, None, config.embedding_size))

    # Otherwise Keras would trace `call`, which takes most of the time of building a model.
    def compute_output_spec(self, input_ids, *_, **__):
        return keras.KerasTensor((*input_ids.shape, self.config.hidden_size), self.compute_dtype)

    def call(self, input_ids, segment_ids, training=False, replica_id=None):
        length = ops.shape(input_ids)[1]
        limit = self.config.max_position_embeddings
        if isinstance(length, int) and length > limit:
            raise ValueError(
                f"`input_ids`: found sequences of {length} tokens, expected at most {limit}"
            )
        words = _look_up(self.word_embeddings, input_ids, "input_ids", "vocab_size")
        x = ops.cast(words, self.compute_dtype)
        if self.config.has_segment_embeddings:
            # A product with one-hot rows has a faster gradient than a gather, whose gradient adds
            # B*S rows to the same two. The one-hot rows are gathered from a constant, because
            # `ops.one_hot` returns zeros for invalid ids.
            identity = np.eye(self.config.type_vocab_size, dtype="float32")
            one_hot = _look_up(identity, segment_ids, "segment_ids", "type_vocab_size")
            table = ops.cast(self.token_type_embeddings, self.compute_dtype)
            x = x + ops.matmul(ops.cast(one_hot, self.compute_dtype), table)
        positions = ops.cast(self.position_embeddings, self.compute_dtype)
        if isinstance(length, int) or ops.is_tensor(length):
            positions = positions[:length]
        else:  # a symbolic size of JAX, whose slice would have min(length, limit) rows
            positions = ops.take(positions, ops.arange(length, dtype="int32"), axis=0)
        x = x + positions
        x = self.dropout(self.norm(x), training=training, replica_id=replica_id)
        return x if self.projection is None else self.projection(x)


def _look_up(table, ids, name, size_name):
    """Return the rows of a table (R, E) for ids (B, S): (B, S, E).

    Invalid ids raise InvalidArgumentError on a CPU. With XLA, GPUs and JAX, their rows are
    arbitrary, zeros or NaN; models check the ids of eager calls.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(table, ids, axis=0)
    import tensorflow as tf

    # `ops.take` would count negative ids from the end of the table.
    return tf.gather(ops.convert_to_tensor(table), ids, name=f"{name}_below_{size_name}")


@register
class TransformerLayer(ConfigLayer):
    """The encoder layer of "Attention is all you need" (arXiv:1706.03762), section 3.1.

    Call: `x` (B, S, H); `input_mask` (B, S), 1 for tokens and 0 for padding; `training`,
    `replica_id`, `recompute`, see `base` -> (B, S, H). With `with_probs` it returns a pair
    of the output and the attention probabilities (B, N, S, S). With a `TokenLayout`, `x` and the
    output are rows (T, H). If the layout selects P positions, only they are computed, and the
    probabilities are (B, N, P, S).

    >>> config = bert_tf.BertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
    >>> layer = bert_tf.modeling.TransformerLayer(config, name="layer_0")
    >>> layer(np.ones((1, 3, 32)), input_mask=np.ones((1, 3))).shape
    TensorShape([1, 3, 32])
    """

    def __init__(self, config, with_probs=False, **kwargs):
        super().__init__(config, **kwargs)
        self.with_probs = with_probs
        hidden = config.hidden_size
        dtype = self.dtype_policy
        self.query = dense(config, hidden, "query", dtype)
        self.key = dense(config, hidden, "key", dtype)
        self.value = dense(config, hidden, "value", dtype)
        self.attention_dense = dense(config, hidden, "attention_dense", dtype)
        self.attention_norm = layer_norm(config, "attention_norm", dtype)
        self.intermediate = dense(config, config.intermediate_size, "intermediate", dtype)
        self.activation = activation(config.hidden_act)
        self.output_dense = dense(config, hidden, "output_dense", dtype)
        self.output_norm = layer_norm(config, "output_norm", dtype)
        probs_rate = config.attention_probs_dropout_prob
        rate = config.hidden_dropout_prob
        self.probs_dropout = Dropout(probs_rate, dtype=dtype, name="probs_dropout")
        self.attention_dropout = Dropout(rate, dtype=dtype, name="attention_dropout")
        self.output_dropout = Dropout(rate, dtype=dtype, name="output_dropout")

    def get_config(self):
        return {**super().get_config(), "with_probs": self.with_probs}

    def build(self, *_):
        attention = (self.query, self.key, self.value, self.attention_dense, self.attention_norm)
        for layer in (*attention, self.intermediate, self.output_norm):
            layer.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.input_spec = keras.layers.InputSpec(axes={-1: self.config.hidden_size})

    def compute_output_spec(self, x, *args, **kwargs):
        if self.with_probs:
            return super().compute_output_spec(x, *args, **kwargs)
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def call(self, x, input_mask, training=False, replica_id=None, recompute=False, layout=None):
        # Seeds are drawn outside `forward`, so that recomputation uses the same masks.
        dropouts = (self.probs_dropout, self.attention_dropout, self.output_dropout)
        seeds = [dropout.draw_seed(replica_id) if training else None for dropout in dropouts]

        def forward(x):
            if layout is not None:
                x, probs = self._forward(x, input_mask, layout, training, seeds)
            else:
                padded = TokenLayout(input_mask)
                x, probs = self._forward(padded.pack(x), input_mask, padded, training, seeds)
                x = padded.unpack(x)
            return (x, probs) if self.with_probs else x

        return keras.remat(forward)(x) if training and recompute else forward(x)

    def _forward(self, tokens, input_mask, layout, training, seeds):
        """Return the rows of `layout.computed_layout`, and the attention probabilities."""
        x = layout.select_computed(tokens)
        context, probs = self._attend(x, tokens, input_mask, layout, training, seeds[0])
        context = self.attention_dense(context)
        context = self.attention_dropout(context, training=training, seed=seeds[1])
        x = self.attention_norm(x + context, training=training, layout=layout)
        is_fused = layout.is_packed and training and self.activation is gelu
        activate = cpu_graph.gelu if is_fused and cpu_graph.is_traced() else self.activation
        output = activate(self.intermediate(x))
        output = self.output_dropout(self.output_dense(output), training=training, seed=seeds[2])
        return self.output_norm(x + output, training=training, layout=layout), probs

    def _attend(self, x, tokens, input_mask, layout, training, seed):
        """Return the attention context, in the shape of `x`, and the probabilities (B, N, P, S).

        Returns None as the probabilities if no caller needs them; see `attention`.
        """
        heads = self.config.num_attention_heads
        width = self.config.hidden_size // heads

        # Values at padding affect no token and have no gradient.
        query = layout.computed_layout.unpack(self.query(x), heads)
        key, value = (layout.unpack(y(tokens), heads) for y in (self.key, self.value))
        keeps_probs = self.with_probs or not attention.drops_probs(self.compute_dtype)
        is_dropped = training and self.probs_dropout.rate > 0
        if not keeps_probs and not is_dropped and attention.can_fuse(query, key):
            return layout.pack(attention.fused(query, key, value, input_mask)), None
        # Not [:, None], which LiteRT does not support for an unknown length.
        is_padding = 1.0 - ops.expand_dims(ops.cast(input_mask, self.compute_dtype), (1, 2))

        def compute(query, key, value):
            query, value = (ops.transpose(y, (0, 2, 1, 3)) for y in (query, value))
            scores = ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))
            # In this order, product, scale and mask are fused into one kernel on a CPU.
            probs = ops.softmax(scores * (width**-0.5) + is_padding * MASKED_SCORE)
            dropped = self.probs_dropout(probs, training=training, seed=seed)
            return ops.transpose(ops.matmul(dropped, value), (0, 2, 1, 3)), probs

        if keeps_probs or not training:
            context, probs = compute(query, key, value)
        else:
            context = keras.remat(lambda *heads: compute(*heads)[0])(query, key, value)
            probs = None
        return layout.computed_layout.pack(context), probs
