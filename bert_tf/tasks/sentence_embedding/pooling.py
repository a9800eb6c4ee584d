"""Pooling of token vectors into sentence vectors."""

from typing import NamedTuple

from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling.models import first_position
from bert_tf.tasks.sentence_embedding.config import POOLINGS
from bert_tf.tasks.sentence_embedding.neighbors import MIN_NORM


class Pooling(NamedTuple):
    """A pooling method; see `SentenceEncoder` for the fields."""

    pooling: str
    layer: int
    normalize: bool

    def check(self, config):
        """Raise UserError if the pooling is unknown or a `BertConfig` lacks the layer."""
        num_layers = config.num_hidden_layers
        if self.pooling not in POOLINGS:
            raise UserError(f"`pooling={self.pooling}`: expected one of {', '.join(POOLINGS)}")
        if not -num_layers <= self.layer < num_layers:
            raise UserError(
                f"`layer={self.layer}`: expected a number from -{num_layers} to {num_layers - 1}, "
                f"because the model has {num_layers} layers"
            )

    def compute(self, model, batch, **options):
        """Return the sentence vectors, float32 (B, H); `model` is called like a `BertModel`."""
        if self.pooling == "cls" and self.layer == -1:
            x = model(batch, positions=first_position(batch), **options)["sequence_output"]
        else:
            x = model(batch, **options)["all_encoder_layers"][self.layer]
        x = ops.cast(x, "float32")
        mask = ops.expand_dims(ops.cast(batch["input_mask"], "float32"), 2)
        if self.pooling == "cls":
            x = x[:, 0]
        elif self.pooling == "max":
            x = ops.max(x - (1.0 - mask) * 1e30, axis=1)
        else:
            x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)
        if self.normalize:
            x = x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), MIN_NORM)
        return x
