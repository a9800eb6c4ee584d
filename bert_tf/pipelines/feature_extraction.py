"""Extract token vectors from a pre-trained model."""

import functools
from typing import NamedTuple

import numpy as np
from keras import ops

from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.errors import UserError, counted
from bert_tf.pipelines.text_pipeline import TextPipeline

WORD_POOLINGS = ("first", "mean")


class TextVectors(NamedTuple):
    """The vectors of one text.

    Attributes:
      index: line index in the input, from 0.
      tokens: list of T tokens or words.
      layers: list of L layer indices, or a list with the name of a layer combination (L is 1).
      values: array (T, L, W).
    """

    index: int  # type: ignore[assignment]
    tokens: list
    layers: list
    values: np.ndarray


class TokenVectors(TextPipeline):
    """Computes a vector for each token or word, without training.

    >>> vectors = bert_tf.pipelines.TokenVectors.from_preset(
    ...     "uncased_L-12_H-768_A-12", layer_combination="second_to_last"
    ... )
    >>> for text in vectors(["a man ||| a plan"]):
    ...     print(text.tokens, text.values.shape)  # T tokens, (T, L, W)

    Attributes:
      layers: list of layer indices, or a list with the name of the layer combination.
    """

    def __init__(
        self,
        model,
        tokenizer,
        layers=(-1,),
        layer_combination=None,
        layer_weights=None,
        words=None,
        **options,
    ):
        """Create the pipeline.

        Args:
          model: a `BertModel`.
          tokenizer: a `FullTokenizer`.
          layers: indices of the layers to return: 0 is the first, -1 the last.
          layer_combination: "embeddings", "second_to_last", "last", "weighted_sum_last_four",
            "concat_last_four" or "weighted_sum_all", which combines layers into one vector (BERT
            paper, table 7); overrides `layers`.
          layer_weights: weights of the layers in a weighted sum; None for equal weights.
          words: None for a vector per token, "first" for the vector of each word's first token,
            "mean" for the mean over each word's tokens.
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `TextPipeline`.

        Raises:
          UserError: if the model lacks a layer, or the number of weights is wrong.
        """
        super().__init__(model, tokenizer, **options)
        if words not in (None, *WORD_POOLINGS):
            raise UserError(f"`words={words}`: expected one of {', '.join(WORD_POOLINGS)}")
        num_layers, hidden_size = model.config.num_hidden_layers, model.config.hidden_size
        if layer_combination is None:
            _check_layers(layers, num_layers)
            self.layers = list(layers)
            self._combine = functools.partial(_stack, layers=self.layers)
        else:
            self.layers = [layer_combination]
            self._combine = _combination(layer_combination, layer_weights, num_layers)
        # All other combinations have the width of a layer.
        width = hidden_size * (4 if layer_combination == "concat_last_four" else 1)
        self._words = words
        self._runner = self._make_runner(
            lambda batch: {"values": self._combine(model(batch, training=False))},
            4 * self.max_seq_length * len(self.layers) * width,
        )

    def __call__(self, texts):
        """Yield the `TextVectors` of each `Text` or str; " ||| " in a str separates a pair."""
        sequences = self._encode(texts, with_words=self._words is not None)
        for encoded, arrays in self._runner.run(sequences, "reading texts"):
            if self._words is None:
                tokens = self.tokenizer.convert_ids_to_tokens(encoded.input_ids)
            else:
                tokens = [word.text for word in encoded.words]
            values = self._trim(encoded, arrays["values"])
            yield TextVectors(encoded.text.index, tokens, self.layers, values)

    def _trim(self, encoded, values):
        """Remove the padding: (T, L, W)."""
        if self._words == "first":
            return values[[word.start for word in encoded.words]]
        if self._words == "mean":
            means = [values[word.start : word.end].mean(0) for word in encoded.words]
            return np.array(means, "float32").reshape(-1, *values.shape[1:])
        return values[: len(encoded.input_ids)].copy()


def _combination(name, layer_weights, num_layers):
    """Return a function from the outputs of `BertModel` to float32 (B, S, 1, W)."""
    if name not in LAYER_COMBINATIONS:
        raise UserError(
            f"`layer_combination={name}`: expected one of {', '.join(LAYER_COMBINATIONS)}"
        )
    layers = LAYER_COMBINATIONS[name]
    layers = range(num_layers) if layers is None else layers
    if layers and num_layers < -min(layers):
        raise UserError(
            f"`layer_combination={name}`: the model has {num_layers} layers, expected at least "
            f"{-min(layers)}"
        )
    if not layers:
        return lambda outputs: ops.cast(outputs["embedding_output"], "float32")[:, :, None]
    is_sum = name != "concat_last_four"
    weights = [1 / len(layers)] * len(layers) if layer_weights is None else list(layer_weights)
    if is_sum and len(weights) != len(layers):
        raise UserError(
            f"`layer_weights`: found {counted(len(weights), 'number')}, expected {len(layers)} for "
            f"`layer_combination={name}`"
        )

    def combine(outputs):
        values = _stack(outputs, layers)  # (B, S, L, H)
        if not is_sum:
            return ops.reshape(values, (*ops.shape(values)[:2], 1, 4 * values.shape[-1]))
        return ops.sum(values * ops.reshape(ops.array(weights, "float32"), (-1, 1)), 2)[:, :, None]

    return combine


def _stack(outputs, layers):
    """Stack layers of the outputs of `BertModel` as float32 (B, S, L, H)."""
    return ops.stack(
        [ops.cast(outputs["all_encoder_layers"][i], "float32") for i in layers], axis=2
    )


def _check_layers(layers, count):
    for layer in layers:
        if not -count <= layer < count:
            raise UserError(
                f"`layers`: found {layer}, expected numbers from 0 to {count - 1} or from -1 to "
                f"-{count}, because the model has {count} layers"
            )
