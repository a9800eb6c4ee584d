"""Frozen features: what the paper's feature-based approach takes of the layers, and its tagger."""

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import UserError
from bert_tf.modeling.heads import Projection
from bert_tf.modeling.layers import Dropout
from bert_tf.modeling.models import BertModel, PretrainedModel, token_inputs

# The rows of the feature-based approach in the paper (arXiv:1810.04805, table 7), and the layers
# that each takes; None for all.
LAYER_COMBINATIONS = {
    "embeddings": (),
    "second_to_last": (-2,),
    "last": (-1,),
    "weighted_sum_last_four": (-4, -3, -2, -1),
    "concat_last_four": (-4, -3, -2, -1),
    "weighted_sum_all": None,
}


def layers_of(way, depth, flag="way"):
    """The layers that a way takes of a model of so many; UserError if it has too few."""
    if way not in LAYER_COMBINATIONS:
        raise UserError(f"`{flag}`: {way!r} is not one of {', '.join(LAYER_COMBINATIONS)}")
    chosen = tuple(range(depth)) if LAYER_COMBINATIONS[way] is None else LAYER_COMBINATIONS[way]
    if chosen and depth < -min(chosen):
        raise UserError(f"`{flag}={way}` wants {-min(chosen)} layers, the model has {depth}")
    return chosen


@keras.saving.register_keras_serializable("bert_tf")
class LayerCombination(keras.layers.Layer):
    """One vector a token of the layers that a way takes; gradients do not go beyond it.

    The weights of a weighted sum are learned: the softmax of as many numbers, all 0 at first, so
    that it begins as the mean. The paper does not say how it weighs.

    Call: outputs of `BertModel` -> (B, S, H), with "concat_last_four" (B, S, 4 H).
    """

    def __init__(self, way, depth, **kwargs):
        super().__init__(**kwargs)
        self.way = way
        self.layers = layers_of(way, depth)

    def build(self, *_):
        if self.way.startswith("weighted_sum"):
            self.layer_weights = self.add_weight(
                shape=(len(self.layers),), initializer="zeros", name="layer_weights"
            )

    def call(self, embedding_output, *all_encoder_layers):
        if not self.layers:
            return ops.stop_gradient(embedding_output)
        chosen = [ops.stop_gradient(all_encoder_layers[i]) for i in self.layers]
        if self.way == "concat_last_four":
            return ops.concatenate(chosen, -1)
        if len(chosen) == 1:
            return chosen[0]
        shares = ops.cast(ops.softmax(self.layer_weights), chosen[0].dtype)
        return ops.sum(ops.stack(chosen, -1) * shares, -1)


@keras.saving.register_keras_serializable("bert_tf")
class BertFeatureTokenClassifier(PretrainedModel):
    """A two-layer BiLSTM on the features of a frozen encoder (paper, section 5.3).

    Inputs: those of `BertModel`. Output: `logits` (B, S, num_labels), float32, in a dict. The
    encoder never drops out, in training either; its weights have no gradients.
    """

    uses_pooler = False

    def __init__(
        self,
        config,
        num_labels,
        way="concat_last_four",
        lstm_size=None,
        dtype=None,
        name="bert_feature_tagger",
    ):
        """Makes it.

        Args:
          config: a `BertConfig`.
          num_labels: L.
          way: one of `LAYER_COMBINATIONS`.
          lstm_size: units of each direction of each layer, None for H: the paper has 768 for both.
          dtype: a Keras dtype policy.
          name: name of the model.
        """
        inputs = token_inputs()
        # By its rates: Keras would pass the outer call's `training` on, whatever this one says.
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        encoder = BertModel(BertConfig.from_dict({**config.to_dict(), **still}), dtype=dtype)
        found = encoder(inputs)
        mix = LayerCombination(way, config.num_hidden_layers, name="mix", dtype=dtype)
        x = mix(found["embedding_output"], *found["all_encoder_layers"])
        is_token = ops.not_equal(inputs["input_mask"], 0)
        for i in range(2):
            x = Dropout(config.hidden_dropout_prob, dtype=dtype)(x)
            forward, backward = (
                keras.layers.LSTM(
                    lstm_size or config.hidden_size,
                    return_sequences=True,
                    go_backwards=is_backward,
                    name=f"lstm_{i}_{'backward' if is_backward else 'forward'}",
                    dtype=dtype,
                    # cuDNN's operation has no kernel in XLA, nor on the CPU that may serve it.
                    use_cudnn=False,
                )
                for is_backward in (False, True)
            )
            # Padding comes last: a backward layer passes over it before it sees a token.
            behind = ops.flip(backward(x, mask=is_token), 1)
            x = ops.concatenate([forward(x, mask=is_token), behind], -1)
        x = Dropout(config.hidden_dropout_prob, dtype=dtype)(x)
        logits = Projection(num_labels, 0.02, name="classifier", dtype=dtype)(x)
        super().__init__(inputs=inputs, outputs={"logits": logits}, name=name)
        self._store_config(config, dtype, num_labels=num_labels, way=way, lstm_size=lstm_size)
