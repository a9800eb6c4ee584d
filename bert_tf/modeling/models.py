"""`BertModel` and the task models, all Keras functional models built from a `BertConfig`.

Shapes: B batch, S sequence, H hidden, N heads, V vocabulary, P predictions, C choices.
"""

import keras
from keras import ops

from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.modeling.base import PretrainedModel, register
from bert_tf.modeling.heads import Fold, MaskedLMHead, Projection, Unfold, pool_windows
from bert_tf.modeling.layers import Dropout, Embeddings, TransformerLayer, activation, dense
from bert_tf.modeling.token_layout import PackedLayout, TokenLayout
from bert_tf.tokenization.settings import INPUTS

# The standard deviation of a head's initial weights. As in the release, it does not depend on the
# config.
HEAD_INITIALIZER_RANGE = 0.02


def token_inputs(shape=(None,)):
    """Return the encoder's inputs, each (B, *shape) int32."""
    return {name: keras.Input(shape, dtype="int32", name=name) for name in INPUTS}


def fold(inputs):
    """Return inputs (B, C, S) as (B * C, S)."""
    return {name: Fold(name=f"fold_{name}")(x) for name, x in inputs.items()}


def head_dropout(config, default, dtype):
    """Return the dropout layer of a classifier; `default` is the rate if the config sets none."""
    rate = default if config.classifier_dropout is None else config.classifier_dropout
    return Dropout(rate, dtype=dtype, name="dropout")


def first_position(inputs):
    """Return the position (B, 1) of the first token of each sequence."""
    return ops.zeros_like(inputs["input_ids"][:, :1])


@register
class BertModel(PretrainedModel):
    """The encoder (Devlin et al., arXiv:1810.04805, section 3).

    Inputs, a dict of (B, S) int32: `input_ids`; `input_mask`, 1 for tokens and 0 for padding;
    `segment_ids`, 0 for the first text and 1 for the second. The mask defaults to 1 and the
    segments to 0. A tensor instead of a dict is `input_ids`.

    Outputs, a dict: `sequence_output` (B, S, H); `pooled_output` (B, H), tanh of a dense layer on
    the first token; `embedding_output` (B, S, H); `all_encoder_layers`, a list of (B, S, H) from
    the first layer to the last; with `with_attention_probs` also `attention_probs`, a list of
    (B, N, S, S).

    With the call argument `positions` (B, P) int32, the last layer is computed only at these
    positions, and the outputs are `sequence_output` (B, P, H) and the `pooled_output` of the first
    position. This saves most of a layer for heads that read few tokens.

    >>> config = bert_tf.BertConfig(vocab_size=30522, num_hidden_layers=2)
    >>> model = bert_tf.BertModel(config)
    >>> ids = np.array([[101, 7592, 102]])
    >>> batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    >>> model(batch)["pooled_output"].shape
    TensorShape([1, 768])
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        with_attention_probs: bool = False,
        dtype: str | None = None,
        name: str = "bert",
    ):
        """Build the graph and its weights; `dtype` is a Keras policy such as "mixed_bfloat16"."""
        inputs = token_inputs()
        embeddings = Embeddings(config, name="embeddings", dtype=dtype)
        # The generator creates each layer after the previous one is built, so that the seeds of
        # weights and dropout are drawn in a reproducible order.
        layers = (
            TransformerLayer(config, with_attention_probs, name=f"layer_{i}", dtype=dtype)
            for i in range(config.num_hidden_layers)
        )

        def pooler(x):
            act = activation(config.pooler_act)
            return dense(config, config.hidden_size, "pooler", dtype, activation=act)(x)

        outputs = _encode(embeddings, layers, pooler, inputs)
        options = {"with_attention_probs": with_attention_probs}
        super().__init__(config, dtype, name, inputs, outputs, **options)

    def call(self, inputs, training=None, skip_padding=None, positions=None):
        """Return the outputs, only at `positions` if given; see `PretrainedModel.call`."""
        inputs = self._complete(inputs)
        skip_padding = self.skip_padding if skip_padding is None else skip_padding
        mask = inputs["input_mask"]
        layout = PackedLayout(mask, training) if skip_padding else TokenLayout(mask)
        layers = [self.get_layer(f"layer_{i}") for i in range(self.config.num_hidden_layers)]
        return _encode(self.embeddings, layers, self.get_layer("pooler"), inputs, layout, positions)

    def compute_output_spec(self, inputs, training=None, skip_padding=None, positions=None, **_):
        if positions is None:
            return super().compute_output_spec(inputs)
        batch, count = positions.shape
        hidden = self.config.hidden_size
        shapes = {"sequence_output": (batch, count, hidden), "pooled_output": (batch, hidden)}
        return {name: keras.KerasTensor(x, self.compute_dtype) for name, x in shapes.items()}

    @property
    def embeddings(self):
        """The embedding layer, whose `word_embeddings` is the (V, H) table."""
        return self.get_layer("embeddings")


def _encode(embeddings, layers, pooler, inputs, layout=None, positions=None):
    """Return the outputs of `BertModel`; `layout` is None in a symbolic graph, which is saved."""
    x = y = embeddings(inputs["input_ids"], inputs["segment_ids"])
    outputs = {"embedding_output": x, "all_encoder_layers": [], "attention_probs": []}
    if layout is not None:
        x = layout.pack(x)
    for layer in layers:
        if positions is not None and layer is layers[-1]:
            layout = layout.for_positions(positions)
        x = layer(x, inputs["input_mask"], layout=layout)
        if layer.with_probs:
            x, probs = x
            outputs["attention_probs"].append(probs)
        if positions is None or layer is layers[-1]:
            y = x if layout is None else layout.computed_layout.unpack(x)
            outputs["all_encoder_layers"].append(y)
    read = {"sequence_output": y, "pooled_output": pooler(y[:, 0])}
    if positions is not None:
        return read
    if not outputs["attention_probs"]:
        del outputs["attention_probs"]
    return {**outputs, **read}


@register
class BertPretrainer(PretrainedModel):
    """Encoder with the two heads of pre-training (paper, section 3.1).

    Inputs: as for `BertModel`, and `masked_lm_positions` (B, P) int32.
    Outputs, float32: `masked_lm_logits` (B, P, V); `next_sentence_logits` (B, 2), where index 0 is
    "is the next sentence".

    >>> model = bert_tf.BertPretrainer.from_preset("uncased_L-4_H-256_A-4")
    >>> tokenizer = bert_tf.BertTokenizer.from_preset("uncased_L-4_H-256_A-4")
    >>> inputs = tokenizer(["A delight."])
    >>> model({**inputs, "masked_lm_positions": tf.constant([[1]])})["next_sentence_logits"].shape
    TensorShape([1, 2])
    """

    def __init__(self, config: BertConfig, dtype: str | None = None, name: str = "bert_pretrainer"):
        inputs = token_inputs()
        positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
        bert = BertModel(config, dtype=dtype)
        first = first_position(inputs)
        encoded = bert(inputs, positions=ops.concatenate([first, positions], axis=1))
        masked_lm = MaskedLMHead(config, bert.embeddings, name="masked_lm", dtype=dtype)
        next_sentence = Projection(2, config.initializer_range, name="next_sentence")
        outputs = {"masked_lm_logits": masked_lm(encoded["sequence_output"][:, 1:])}
        outputs["next_sentence_logits"] = next_sentence(encoded["pooled_output"])
        inputs["masked_lm_positions"] = positions
        super().__init__(config, dtype, name, inputs, outputs)


@register
class BertClassifier(PretrainedModel):
    """Encoder with one linear layer on the pooled output (paper, section 4.1).

    Inputs: as for `BertModel`. With `num_numeric_features` F also `numbers` (B, F) float32, with a
    scale of about 1. They are appended to the pooled output.
    Output: `logits` (B, num_labels), float32, in a dict.

    With `window_pooling` "mean" or "max", the inputs are windows of documents (B, W, S), and the
    logits are pooled over the windows. Windows whose mask is 0 are ignored.

    >>> model = bert_tf.BertClassifier.from_preset("uncased_L-4_H-256_A-4", num_labels=2)
    >>> tokenizer = bert_tf.BertTokenizer.from_preset("uncased_L-4_H-256_A-4")
    >>> model(tokenizer(["A delight.", "Too long."]))["logits"].shape
    TensorShape([2, 2])
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        dtype: str | None = None,
        name: str = "bert_classifier",
        num_numeric_features: int = 0,
        window_pooling: str | None = None,
    ):
        if window_pooling not in (None, "mean", "max"):
            raise UserError(f"`window_pooling={window_pooling}`: expected mean or max")
        inputs = token_inputs((None, None) if window_pooling else (None,))
        sequences = fold(inputs) if window_pooling else inputs
        bert = BertModel(config, dtype=dtype)
        x = bert(sequences, positions=first_position(sequences))["pooled_output"]
        x = head_dropout(config, config.seq_classif_dropout, dtype)(x)
        if num_numeric_features:
            numbers = keras.Input((num_numeric_features,), dtype="float32", name="numbers")
            inputs["numbers"] = numbers
            # In float32, because bfloat16 rounds the numbers to two digits.
            if window_pooling:
                ones = ops.expand_dims(ops.ones_like(inputs["input_mask"][:, :, 0], "float32"), 2)
                fold_numbers = Fold(name="fold_numbers", dtype="float32")
                numbers = fold_numbers(ops.expand_dims(numbers, 1) * ones)
            x = keras.layers.Concatenate(name="with_numbers", dtype="float32")([x, numbers])
        logits = Projection(num_labels, HEAD_INITIALIZER_RANGE, name="classifier")(x)
        if window_pooling:
            logits = Unfold(name="unfold", dtype="float32")(logits, inputs["input_mask"])
            logits = pool_windows(logits, inputs["input_mask"], window_pooling)
        options = {"num_numeric_features": num_numeric_features, "window_pooling": window_pooling}
        outputs = {"logits": logits}
        super().__init__(config, dtype, name, inputs, outputs, num_labels=num_labels, **options)


@register
class BertMultipleChoice(PretrainedModel):
    """Encoder that scores several endings of a text (paper, section 4.4).

    The score of a choice is the dot product of its pooled output with a learned vector.

    Inputs: as for `BertModel`, with an axis for the choices, each (B, C, S).
    Output: `logits` (B, C), float32, in a dict.

    >>> model = bert_tf.BertMultipleChoice.from_preset("uncased_L-4_H-256_A-4")
    >>> tokenizer = bert_tf.BertTokenizer.from_preset("uncased_L-4_H-256_A-4")
    >>> pairs = tokenizer(["She slept", "She slept"], ["well.", "the sky."])
    >>> model({name: x[None] for name, x in pairs.items()})["logits"].shape
    TensorShape([1, 2])
    """

    def __init__(
        self, config: BertConfig, dtype: str | None = None, name: str = "bert_multiple_choice"
    ):
        inputs = token_inputs((None, None))
        folded = fold(inputs)
        bert = BertModel(config, dtype=dtype)
        pooled = bert(folded, positions=first_position(folded))["pooled_output"]
        pooled = head_dropout(config, config.seq_classif_dropout, dtype)(pooled)
        scores = Projection(1, HEAD_INITIALIZER_RANGE, use_bias=False, name="classifier")(pooled)
        unfold = Unfold(name="unfold", dtype="float32")
        outputs = {"logits": unfold(scores, inputs["input_ids"])[:, :, 0]}
        super().__init__(config, dtype, name, inputs, outputs)


@register
class BertTokenClassifier(PretrainedModel):
    """Encoder with one linear layer on every token (paper, section 5.3).

    Inputs: as for `BertModel`. Output: `logits` (B, S, num_labels), float32, in a dict.

    >>> model = bert_tf.BertTokenClassifier.from_preset("uncased_L-4_H-256_A-4", num_labels=3)
    >>> tokenizer = bert_tf.BertTokenizer.from_preset("uncased_L-4_H-256_A-4")
    >>> model(tokenizer(["A delight."]))["logits"].shape
    TensorShape([1, 128, 3])
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        dtype: str | None = None,
        name: str = "bert_token_classifier",
    ):
        inputs = token_inputs()
        tokens = BertModel(config, dtype=dtype)(inputs)["sequence_output"]
        tokens = head_dropout(config, config.hidden_dropout_prob, dtype)(tokens)
        logits = Projection(num_labels, HEAD_INITIALIZER_RANGE, name="classifier")(tokens)
        super().__init__(config, dtype, name, inputs, {"logits": logits}, num_labels=num_labels)


@register
class BertSpanLabeler(PretrainedModel):
    """Encoder that scores each token as the start and the end of an answer (paper, section 4.2).

    Inputs: as for `BertModel`. Outputs, float32: `start_logits` (B, S), `end_logits` (B, S).

    >>> model = bert_tf.BertSpanLabeler.from_preset("uncased_L-4_H-256_A-4")
    >>> tokenizer = bert_tf.BertTokenizer.from_preset("uncased_L-4_H-256_A-4")
    >>> model(tokenizer(["Who slept?"], ["She slept."]))["start_logits"].shape
    TensorShape([1, 128])
    """

    uses_pooler = False

    def __init__(
        self, config: BertConfig, dtype: str | None = None, name: str = "bert_span_labeler"
    ):
        inputs = token_inputs()
        tokens = BertModel(config, dtype=dtype)(inputs)["sequence_output"]
        if config.qa_dropout:
            tokens = Dropout(config.qa_dropout, dtype=dtype, name="dropout")(tokens)
        logits = Projection(2, HEAD_INITIALIZER_RANGE, name="spans")(tokens)
        outputs = {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}
        super().__init__(config, dtype, name, inputs, outputs)
