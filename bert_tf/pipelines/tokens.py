"""A vector for each token or word, from chosen layers of the encoder.

Letters of shapes: B batch, S sequence, H hidden, L layers that are asked for, T tokens or words of
one text, W width of a vector.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling import layers_of
from bert_tf.pipelines.base import TextPipeline

# Which vector is a word's.
WORDS = ("first", "mean")


class TextVectors(NamedTuple):
    """One text's vectors.

    `index` is the number of its line, from 0; `tokens` the T tokens, or words; `names` the L layers
    as they were asked for; `values` (T, L, W).
    """

    index: int  # type: ignore[assignment]
    tokens: list
    names: list
    values: np.ndarray


class TokenVectors(TextPipeline):
    """Texts to vectors of their tokens, by a model that is not trained further.

    >>> vectors = TokenVectors.from_preset("uncased_L-12_H-768_A-12", way="concat_last_four")
    >>> for text in vectors(["a man ||| a plan"]):
    ...     text.tokens, text.values
    """

    def __init__(
        self,
        model,
        tokenizer,
        layers=(-1,),
        way=None,
        layer_weights=None,
        words=None,
        **how,
    ):
        """Takes what to make of which model.

        Args:
          model: a `BertModel`.
          tokenizer: a `FullTokenizer`.
          layers: numbers of the layers to give, 0 for the lowest or -1 for the last.
          way: one of `modeling.LAYER_COMBINATIONS` instead of them; it gives one vector.
          layer_weights: what each layer of a weighted sum weighs; None weighs them equally.
          words: None for a vector a token; "first" for one a word, that of its first token; "mean"
            for the mean over the tokens of the word.
          **how: `strategy`, `batch_size` and `max_seq_length`, as `TextPipeline` takes them.

        Raises:
          UserError: if a layer is not in the model, or the number of weights is not that of layers.
        """
        super().__init__(model, tokenizer, **how)
        if words not in (None, *WORDS):
            raise UserError(f"`words`: {words!r} is not one of {', '.join(WORDS)}")
        depth, hidden = model.config.num_hidden_layers, model.config.hidden_size
        self._combine, self.names, width = _combination(layers, way, layer_weights, depth, hidden)
        self._words = words
        self._runner = self._make_runner(
            self._values, 4 * self.max_seq_length * len(self.names) * width
        )

    def __call__(self, texts):
        """Yields `TextVectors` for each of `texts`: `Text`s, or str with " ||| " in a pair."""
        rows = self._make_rows(with_words=self._words is not None)
        for sequence, found in self._runner.run(rows.of(texts), "reading texts", cut=self._cut):
            tokens = self.tokenizer.convert_ids_to_tokens(sequence.input_ids)
            if self._words:
                tokens = [word.text for word in sequence.words]
            yield TextVectors(sequence.text.index, tokens, self.names, found)
        rows.report()

    def _values(self, batch):
        """Batch to float32 (B, S, L, W)."""
        return {"values": self._combine(self.model(batch, training=False))}

    def _cut(self, row, found):
        """What is no padding: (T, L, W)."""
        values = found["values"]
        if not self._words:
            return values[: len(row.input_ids)].copy()
        places = row.item.words
        if self._words == "first":
            return values[[word.start for word in places]]
        means = [values[word.start : word.end].mean(0) for word in places]
        return np.array(means, "float32").reshape(-1, *values.shape[1:])


def _combination(layers, way, layer_weights, depth, hidden):
    """What to make of a model's outputs.

    Returns:
      (function from the outputs of `BertModel` to float32 (B, S, L, W), the names of the L, W)
    """
    if way is None:
        if not layers:
            raise UserError("`layers`: at least one was expected")
        for layer in layers:
            if not -depth <= layer < depth:
                raise UserError(
                    f"`layers`: there is no layer {layer}, the model has {depth}: 0 to "
                    f"{depth - 1}, or -1 to -{depth}"
                )
        return lambda outputs: _stack(outputs, layers), list(layers), hidden
    chosen = layers_of(way, depth)
    if not chosen:
        return lambda outputs: _float(outputs["embedding_output"])[:, :, None], [way], hidden
    if way == "concat_last_four":

        def concatenate(outputs):
            parts = [_float(outputs["all_encoder_layers"][i]) for i in chosen]
            return ops.concatenate(parts, axis=-1)[:, :, None]

        return concatenate, [way], 4 * hidden
    count = len(chosen)
    shares = [1 / count] * count if layer_weights is None else list(layer_weights)
    if len(shares) != count:
        raise UserError(
            f"`layer_weights` has {len(shares)} numbers, `way={way}` of this model wants {count}"
        )

    def add_up(outputs):
        values = _stack(outputs, chosen)  # (B, S, L, H)
        return ops.sum(values * ops.reshape(ops.array(shares, "float32"), (-1, 1)), 2)[:, :, None]

    return add_up, [way], hidden


def _float(x):
    return keras.ops.cast(x, "float32")


def _stack(outputs, layers):
    return ops.stack([_float(outputs["all_encoder_layers"][i]) for i in layers], axis=2)
