"""`BertModel` and the models that the scripts train, all Keras functional models.

Each is made from a `BertConfig` and made again from it when a `.keras` file is loaded, so no
`custom_objects` are needed: importing `bert_tf.modeling` registers them.
"""

from typing import Any, TypeVar

import keras

from bert_tf.config import BertConfig
from bert_tf.modeling.heads import FoldChoices, MaskedLMHead, Projection, UnfoldChoices
from bert_tf.modeling.layers import Dropout, Embeddings, TransformerLayer, initializer

INPUTS = ("input_ids", "input_mask", "segment_ids")

# On the pooled output before a classifier, whatever the config says, as in the release.
CLASSIFIER_DROPOUT = 0.1

_Model = TypeVar("_Model", bound="PretrainedModel")


def token_inputs():
    """The encoder's three inputs, each (B, S) int32 with S open."""
    return {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}


class PretrainedModel(keras.Model):
    """A functional model that is saved as its constructor's arguments."""

    # Whether its outputs depend on the pooler; else a checkpoint may lack that.
    uses_pooler = True

    def _store_config(self, config, dtype, **options):
        """Keeps the constructor's arguments; to be called when the graph is made."""
        self.config = config
        self._options = options
        # A file that was saved in one precision is loaded in it, whatever the default is then.
        self._policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

    @property
    def compute_type(self):
        """What the model computes in, such as "bfloat16"; its weights may be of another type."""
        return self._policy.compute_dtype

    @classmethod
    def from_preset(
        cls: type[_Model], preset: str, load_weights: bool = True, **options: Any
    ) -> _Model:
        """Makes the model of a published name, or of a folder with weights and config.

        >>> bert_tf.BertModel.from_preset("uncased_L-12_H-768_A-12")

        Args:
          preset: a name of `bert_tf.checkpoints.MODELS`, fetched if it is not in the cache; or a
            folder of the release or of Hugging Face.
          load_weights: whether to load the weights, or start from random ones.
          **options: for the constructor, such as `num_labels` of a classifier.

        Raises:
          UserError: if there is no such model, or it does not fit.
        """
        from bert_tf import checkpoints  # a room above: only this shortcut reaches up to it

        path = preset
        if preset in checkpoints.MODELS:
            path = checkpoints.fetch(preset).checkpoint
        model = cls(checkpoints.load_config(path), **options)
        if load_weights:
            checkpoints.warm_start(model, path)
        return model

    def call(self, inputs, training=None, mask=None):
        # Keras would take a dict with one key too many by position, and compute nonsense.
        inputs = {tensor.name: inputs[tensor.name] for tensor in self.inputs}
        return super().call(inputs, training=training, mask=mask)

    def get_config(self):
        policy = keras.saving.serialize_keras_object(self._policy)
        options = {**self._options, "dtype": policy, "name": self.name}
        return {"config": self.config.to_dict(), **options}

    @classmethod
    def from_config(cls, values, custom_objects=None):
        values = dict(values)
        values["dtype"] = keras.saving.deserialize_keras_object(values["dtype"])
        return cls(BertConfig.from_dict(values.pop("config")), **values)


@keras.saving.register_keras_serializable("bert_tf")
class BertModel(PretrainedModel):
    """The encoder (Devlin et al., arXiv:1810.04805, section 3).

    Inputs, a dict of (B, S) int32: `input_ids`; `input_mask`, 1 for tokens and 0 for padding;
    `segment_ids`, 0 for the first text and 1 for the second.

    Outputs, a dict: `sequence_output` (B, S, H); `pooled_output` (B, H), tanh of a dense layer on
    the first token; `embedding_output` (B, S, H); `all_encoder_layers`, a list of (B, S, H), first
    layer first; with `with_attention_probs` also `attention_probs`, a list of (B, N, S, S).
    """

    def __init__(
        self,
        config: BertConfig,
        with_attention_probs: bool = False,
        dtype: str | None = None,
        name: str = "bert",
    ):
        """Builds the graph and its weights.

        Args:
          config: a `BertConfig`.
          with_attention_probs: whether to put out the attention of every layer.
          dtype: a Keras dtype policy, such as "mixed_bfloat16".
          name: name of the model.
        """
        inputs = token_inputs()
        embeddings = Embeddings(config, name="embeddings", dtype=dtype)
        x = embeddings(inputs["input_ids"], inputs["segment_ids"])
        outputs = {"embedding_output": x, "all_encoder_layers": []}
        if with_attention_probs:
            outputs["attention_probs"] = []
        for i in range(config.num_hidden_layers):
            layer = TransformerLayer(config, with_attention_probs, name=f"layer_{i}", dtype=dtype)
            x = layer(x, inputs["input_mask"])
            if with_attention_probs:
                x, probs = x
                outputs["attention_probs"].append(probs)
            outputs["all_encoder_layers"].append(x)
        outputs["sequence_output"] = x
        pooler = keras.layers.Dense(
            config.hidden_size,
            activation="tanh",
            kernel_initializer=initializer(config),
            name="pooler",
            dtype=dtype,
        )
        outputs["pooled_output"] = pooler(x[:, 0])
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self._store_config(config, dtype, with_attention_probs=with_attention_probs)

    @property
    def embeddings(self):
        """The embedding layer, whose `word_embeddings` is the (V, H) table."""
        return self.get_layer("embeddings")


@keras.saving.register_keras_serializable("bert_tf")
class BertPretrainer(PretrainedModel):
    """Encoder with the two heads of pre-training (paper, section 3.1).

    Inputs: those of `BertModel`, and `masked_lm_positions` (B, P) int32.
    Outputs, float32: `masked_lm_logits` (B, P, V), `next_sentence_logits` (B, 2) with 0 for "is the
    next".
    """

    def __init__(self, config: BertConfig, dtype: str | None = None, name: str = "bert_pretrainer"):
        inputs = token_inputs()
        positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
        bert = BertModel(config, dtype=dtype)
        encoded = bert(inputs)
        masked_lm = MaskedLMHead(config, bert.embeddings, name="masked_lm", dtype=dtype)
        next_sentence = Projection(2, config.initializer_range, name="next_sentence", dtype=dtype)
        outputs = {
            "masked_lm_logits": masked_lm(encoded["sequence_output"], positions),
            "next_sentence_logits": next_sentence(encoded["pooled_output"]),
        }
        inputs["masked_lm_positions"] = positions
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self._store_config(config, dtype)


@keras.saving.register_keras_serializable("bert_tf")
class BertClassifier(PretrainedModel):
    """Encoder with one linear layer on the pooled output (paper, section 4.1).

    Inputs: those of `BertModel`; with `num_numbers` also `numbers` (B, num_numbers) float32, about
    as large as 1, which that layer sees beside the pooled output.
    Output: `logits` (B, num_labels), float32, in a dict.
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        dtype: str | None = None,
        name: str = "bert_classifier",
        num_numbers: int = 0,
    ):
        inputs = token_inputs()
        pooled = BertModel(config, dtype=dtype)(inputs)["pooled_output"]
        pooled = Dropout(CLASSIFIER_DROPOUT, dtype=dtype)(pooled)
        on_top = "float32" if num_numbers else dtype
        if num_numbers:
            inputs["numbers"] = keras.Input((num_numbers,), dtype="float32", name="numbers")
            # In float32 from here on: bfloat16 would leave them two digits.
            beside = keras.layers.Concatenate(name="beside", dtype="float32")
            pooled = beside([pooled, inputs["numbers"]])
        # The release draws this matrix with 0.02 whatever the config says.
        logits = Projection(num_labels, 0.02, name="classifier", dtype=on_top)(pooled)
        super().__init__(inputs=inputs, outputs={"logits": logits}, name=name)
        self._store_config(config, dtype, num_labels=num_labels, num_numbers=num_numbers)


@keras.saving.register_keras_serializable("bert_tf")
class BertMultipleChoice(PretrainedModel):
    """Encoder that scores each of several endings of a text (paper, section 4.4).

    The score of a choice is the product of its pooled output with one vector.

    Inputs: those of `BertModel` with an axis of the choices, each (B, C, S).
    Output: `logits` (B, C), float32, in a dict.
    """

    def __init__(self, config: BertConfig, dtype: str | None = None, name: str = "bert_chooser"):
        inputs = {x: keras.Input((None, None), dtype="int32", name=x) for x in INPUTS}
        folded = {x: FoldChoices(name=f"fold_{x}")(inputs[x]) for x in INPUTS}
        pooled = BertModel(config, dtype=dtype)(folded)["pooled_output"]
        pooled = Dropout(CLASSIFIER_DROPOUT, dtype=dtype)(pooled)
        scores = Projection(1, 0.02, use_bias=False, name="classifier", dtype=dtype)(pooled)
        unfold = UnfoldChoices(name="unfold", dtype="float32")
        outputs = {"logits": unfold(scores, inputs["input_ids"])}
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self._store_config(config, dtype)


@keras.saving.register_keras_serializable("bert_tf")
class BertTokenClassifier(PretrainedModel):
    """Encoder with one linear layer on every token (paper, section 5.3).

    Inputs: those of `BertModel`. Output: `logits` (B, S, num_labels), float32, in a dict.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        dtype: str | None = None,
        name: str = "bert_tagger",
    ):
        inputs = token_inputs()
        tokens = BertModel(config, dtype=dtype)(inputs)["sequence_output"]
        tokens = Dropout(config.hidden_dropout_prob, dtype=dtype)(tokens)
        logits = Projection(num_labels, 0.02, name="classifier", dtype=dtype)(tokens)
        super().__init__(inputs=inputs, outputs={"logits": logits}, name=name)
        self._store_config(config, dtype, num_labels=num_labels)


@keras.saving.register_keras_serializable("bert_tf")
class BertSpanLabeler(PretrainedModel):
    """Encoder that scores each token as start and as end of an answer (paper, section 4.2).

    Inputs: those of `BertModel`. Outputs, float32: `start_logits` (B, S), `end_logits` (B, S).
    """

    uses_pooler = False

    def __init__(
        self, config: BertConfig, dtype: str | None = None, name: str = "bert_span_finder"
    ):
        inputs = token_inputs()
        tokens = BertModel(config, dtype=dtype)(inputs)["sequence_output"]
        logits = Projection(2, 0.02, name="spans", dtype=dtype)(tokens)
        outputs = {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self._store_config(config, dtype)
