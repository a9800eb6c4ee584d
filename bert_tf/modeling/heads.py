"""Layers on top of the encoder.

Shapes: B batch, S sequence, H hidden, V vocabulary, P predictions, C choices.
"""

import keras
from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling.base import ConfigLayer, register
from bert_tf.modeling.layer_states import named_layers
from bert_tf.modeling.layers import Embeddings, activation, dense, layer_norm
from bert_tf.modeling.token_layout import gather_tokens


@register
class MaskedLMHead(ConfigLayer):
    """Logits over the vocabulary at the masked positions.

    The output matrix is the word embedding table (release, `get_masked_lm_output`) of the layer
    `embeddings`. By default, it is found when the head is called on the encoder's output. Loaded
    heads need this, because Keras saves a graph layer by layer.

    Call: `sequence_output` (B, S, H), `masked_lm_positions` (B, P) int32; `training` -> logits
    (B, P, V) in float32. Without positions, all S tokens count as masked. The product with the
    table uses the compute dtype only in training, because bfloat16 gives words with similar scores
    the same logit.

    >>> encoder = bert_tf.BertModel.from_preset("uncased_L-4_H-256_A-4")
    >>> head = bert_tf.modeling.MaskedLMHead(encoder.config, encoder.embeddings)
    >>> head(encoder(np.array([[5, 6, 7]]))["sequence_output"], np.array([[1]])).shape
    TensorShape([1, 1, ...])
    """

    def __init__(self, config, embeddings=None, name="masked_lm", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.embeddings = embeddings
        act = activation(config.hidden_act)
        self.dense = dense(
            config, config.embedding_size, "dense", self.dtype_policy, activation=act
        )
        self.norm = layer_norm(config, "LayerNorm", self.dtype_policy)
        self._has_encoder_table = True

    def _layers_saved_elsewhere(self):
        return [self.embeddings]

    def get_config(self):
        if not self._has_encoder_table:
            raise UserError(
                f"the layer {self.name} cannot be saved: it is called on the output of an encoder "
                "with different `embeddings`"
            )
        return super().get_config()

    def get_build_config(self):
        """Return None, because a loaded head is built when it is called."""

    def __call__(self, sequence_output, masked_lm_positions=None, **kwargs):
        if isinstance(sequence_output, keras.KerasTensor):
            encoder_embeddings = _find_embeddings(sequence_output)
            if self.embeddings is None and len(encoder_embeddings) == 1:
                self.embeddings = encoder_embeddings[0]
            self._has_encoder_table = encoder_embeddings == [self.embeddings]
        return super().__call__(sequence_output, masked_lm_positions, **kwargs)

    def build(self, *_):
        self.dense.build((None, self.config.hidden_size))
        self.norm.build((None, self.config.embedding_size))
        shape = (self.config.vocab_size,)
        # Mixed precision would round the bias before adding it to float32 logits.
        self.output_bias = self.add_weight(shape, "zeros", name="output_bias", autocast=False)

    def call(self, sequence_output, masked_lm_positions=None, training=False):
        predictions = sequence_output if masked_lm_positions is None else masked_lm_positions
        # Explicit sizes, because -1 cannot be inferred for empty tensors.
        batch, count = ops.shape(predictions)[:2]
        if masked_lm_positions is None:
            x = ops.reshape(sequence_output, (-1, self.config.hidden_size))
        else:
            x = gather_tokens(sequence_output, masked_lm_positions)
        x = self.norm(self.dense(x))
        dtype = self.compute_dtype if training else "float32"
        table = ops.cast(self.embeddings.word_embeddings, dtype)
        logits = ops.cast(ops.matmul(ops.cast(x, dtype), ops.transpose(table)), "float32")
        logits = logits + ops.cast(self.output_bias, "float32")
        return ops.reshape(logits, (batch, count, self.config.vocab_size))


def _find_embeddings(tensor):
    """Return the `Embeddings` from which a symbolic tensor is computed."""
    tensors = [tensor]
    visited, embeddings = set(), {}
    while tensors:
        operation, node_index, _ = tensors.pop()._keras_history
        if (operation, node_index) not in visited:
            visited.add((operation, node_index))
            tensors += operation._inbound_nodes[node_index].input_tensors
            nested = named_layers(operation) if isinstance(operation, keras.Layer) else ()
            layers = [operation, *(layer for _, layer in nested)]
            embeddings |= {id(x): x for x in layers if isinstance(x, Embeddings)}
    return [*embeddings.values()]


@register
class Projection(keras.layers.Layer):
    """Linear map to `units` logits, with the matrix stored as (units, H) as in the release.

    It always computes in float32, because bfloat16 gives different tokens the same logit.

    Call: x (..., H) -> logits (..., units) in float32.
    """

    def __init__(self, units, initializer_range, use_bias=True, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.units = units
        self.initializer_range = initializer_range
        self.use_bias = use_bias

    def build(self, x_shape):
        shape = (self.units, x_shape[-1])
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        self.output_weights = self.add_weight(shape, initializer, name="output_weights")
        if self.use_bias:
            self.output_bias = self.add_weight(shape[:1], "zeros", name="output_bias")

    def call(self, x):
        logits = ops.matmul(x, ops.transpose(self.output_weights))
        return logits + self.output_bias if self.use_bias else logits


@register
class Fold(keras.layers.Layer):
    """Turn each choice or window into a row of the batch. Call: (B, C, S) -> (B * C, S)."""

    def call(self, x):
        return ops.reshape(x, (-1, ops.shape(x)[-1]))


@register
class Unfold(keras.layers.Layer):
    """Inverse of `Fold`. Call: x (B * C, H), the choices (B, C, S) -> (B, C, H)."""

    def call(self, x, choices):
        return ops.reshape(x, (*ops.shape(choices)[:2], x.shape[-1]))


def pool_windows(logits, input_mask, pooling):
    """Pool logits (B, W, L) by mean or maximum, without windows of padding: (B, L).

    `input_mask` is the mask of the tokens (B, W, S).
    """
    is_real = ops.expand_dims(input_mask[:, :, 0], 2) > 0
    if pooling == "max":
        # Finite, because a replica's batch may be all padding.
        return ops.max(ops.where(is_real, logits, -1e30), 1)
    weights = ops.cast(is_real, "float32")
    return ops.sum(logits * weights, 1) / ops.maximum(ops.sum(weights, 1), 1.0)
