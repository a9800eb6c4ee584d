"""Extract token vectors, input embeddings and attention from a pre-trained model."""

import functools
from typing import NamedTuple

import numpy as np
from keras import ops

from bert_tf.errors import UserError, counted
from bert_tf.modeling import layer_indices
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.text_pipeline import TextPipeline

WORD_POOLINGS = ("first", "mean")


class TextVectors(NamedTuple):
    """The values of one text.

    Attributes:
      index: line index in the input, from 0.
      tokens: list of T tokens or words.
      layers: list of L layer indices, or a list with the name of a layer combination (L is 1).
      values: array (T, L, W) of vectors, or (L, N, T, T) of attention probabilities.
    """

    index: int  # type: ignore[assignment]
    tokens: list
    layers: list
    values: np.ndarray


class _TextVectorsPipeline(TextPipeline):
    _with_words = False

    def __call__(self, texts):
        """Yield the `TextVectors` of each `Text` or str; " ||| " in a str separates a pair."""
        sequences = self._encode(texts, self._with_words)
        for encoded, arrays in self._runner.run(sequences, "reading texts"):
            if self._with_words:
                tokens = [word.text for word in encoded.words]
            else:
                tokens = self.tokenizer.convert_ids_to_tokens(encoded.input_ids)
            values = self._trim(encoded, arrays["values"])
            yield TextVectors(encoded.text.index, tokens, self.layers, values)


class TokenVectors(_TextVectorsPipeline):
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
          layer_combination: one of `modeling.LAYER_COMBINATIONS`, which combines several layers
            into one vector; overrides `layers`.
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
            _check_numbers(layers, num_layers, "layer")
            self.layers = list(layers)
            self._combine = functools.partial(_stack, layers=self.layers)
        else:
            self.layers = [layer_combination]
            self._combine = _combination(layer_combination, layer_weights, num_layers)
        # All other combinations have the width of a layer.
        width = hidden_size * (4 if layer_combination == "concat_last_four" else 1)
        self._words, self._with_words = words, words is not None
        self._runner = self._make_runner(
            lambda batch: {"values": self._combine(model(batch, training=False))},
            4 * self.max_seq_length * len(self.layers) * width,
        )

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
    layers = layer_indices(name, num_layers)
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


class EmbeddedText(NamedTuple):
    """The input embeddings of one text (BERT paper, figure 2).

    Attributes:
      tokens: list of T tokens, including [CLS] and [SEP].
      input_ids: list of T token ids.
      segment_ids: list of T segment ids.
      word, segment, position: arrays (T, H).
      output: array (T, H), their normalized sum, the input of the first layer.
    """

    tokens: list
    input_ids: list
    segment_ids: list
    word: np.ndarray
    segment: np.ndarray
    position: np.ndarray
    output: np.ndarray


class EmbeddingParts(TextPipeline):
    """Computes the word, segment and position embeddings of texts separately.

    >>> embeddings = bert_tf.pipelines.EmbeddingParts.from_preset("uncased_L-12_H-768_A-12")
    >>> for text in embeddings(["How are you? ||| Fine."]):
    ...     print(text.tokens, text.word.shape, text.output.shape)
    """

    def __init__(self, model, tokenizer, **options):
        super().__init__(model, tokenizer, **options)
        bytes_per_row = 16 * self.max_seq_length * model.config.hidden_size
        self._runner = self._make_runner(self._compute, bytes_per_row)

    def __call__(self, texts):
        """Yield the `EmbeddedText` of each `Text` or str; " ||| " in a str separates a pair."""
        for encoded, arrays in self._runner.run(self._encode(texts), "reading texts"):
            ids = encoded.input_ids
            arrays = {name: x[: len(ids)].copy() for name, x in arrays.items()}
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            yield EmbeddedText(tokens, ids, encoded.segment_ids, **arrays)

    def _compute(self, batch):
        """Return float32 (B, S, H) for each array of `EmbeddedText`."""
        layer = self.model.embeddings
        ids = batch["input_ids"]
        positions = ops.broadcast_to(ops.arange(ops.shape(ids)[1]), ops.shape(ids))
        word = ops.take(layer.word_embeddings, ids, axis=0)
        segment = ops.zeros_like(word)
        if self.model.config.has_segment_embeddings:
            segment = ops.take(layer.token_type_embeddings, batch["segment_ids"], axis=0)
        arrays = {
            "word": word,
            "segment": segment,
            "position": ops.take(layer.position_embeddings, positions, axis=0),
            "output": self.model(batch, training=False)["embedding_output"],
        }
        return {name: ops.cast(x, "float32") for name, x in arrays.items()}


class Attention(_TextVectorsPipeline):
    """Computes the attention probabilities of texts.

    >>> attention = bert_tf.pipelines.Attention.from_preset("uncased_L-12_H-768_A-12")
    >>> for text in attention(["The cat sat on the mat."]):
    ...     print(text.tokens, text.values.shape)  # (L, N, T, T): from each token to each token

    Attributes:
      layers: list of layer indices.
      heads: list of head indices.
    """

    make_model = staticmethod(functools.partial(BertModel, with_attention_probs=True))

    def __init__(self, model, tokenizer, layers=None, heads=None, **options):
        """Create the pipeline.

        Args:
          model: a `BertModel` created `with_attention_probs`.
          tokenizer: a `FullTokenizer`.
          layers: indices of the layers to return: 0 is the first, -1 the last; None for all.
          heads: indices of the heads to return: 0 is the first, -1 the last; None for all.
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `TextPipeline`.

        Raises:
          UserError: if the model lacks a layer or a head.
        """
        super().__init__(model, tokenizer, **options)
        self.layers = _select(layers, model.config.num_hidden_layers, "layer")
        self.heads = _select(heads, model.config.num_attention_heads, "head")
        count = len(self.layers) * len(self.heads)
        self._runner = self._make_runner(self._compute, 4 * count * self.max_seq_length**2)

    def _compute(self, batch):
        probs = self.model(batch, training=False)["attention_probs"]
        selected = ops.stack([probs[layer] for layer in self.layers], axis=1)
        return {"values": ops.cast(ops.take(selected, self.heads, axis=2), "float32")}

    def _trim(self, encoded, values):
        """Remove the padding: (L, N, T, T)."""
        length = len(encoded.input_ids)
        return values[:, :, :length, :length].copy()


def _select(numbers, count, name):
    """Return layer or head indices as non-negative numbers; None selects all."""
    if numbers is None:
        return list(range(count))
    _check_numbers(numbers, count, name)
    return [number % count for number in numbers]


def _check_numbers(numbers, count, name):
    if not numbers:
        raise UserError(f"`{name}s` is empty, expected at least one {name}")
    for number in numbers:
        if not -count <= number < count:
            raise UserError(
                f"`{name}s`: found {number}, expected numbers from 0 to {count - 1} or from -1 to "
                f"-{count}, because the model has {count} {name}s"
            )
