"""A vector for each token or word, from chosen layers of the encoder.

Letters of shapes: B batch, S sequence, H hidden, L layers that are asked for, T tokens or words of
one text, W width of a vector.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from bert_tf import checkpoints
from bert_tf.errors import UserError
from bert_tf.features.presets import files_of
from bert_tf.features.runner import Runner
from bert_tf.features.texts import TextRows, as_text
from bert_tf.modeling.models import BertModel
from bert_tf.tasks.checks import check_length
from bert_tf.training import make_strategy

# The rows of the feature-based approach in the paper (arXiv:1810.04805, table 7).
WAYS = (
    "embeddings",
    "second_to_last",
    "last",
    "weighted_sum_last_four",
    "concat_last_four",
    "weighted_sum_all",
)


class TextVectors(NamedTuple):
    """One text's vectors.

    `index` is the number of its line, from 0; `tokens` the T tokens, or words; `names` the L layers
    as they were asked for; `values` (T, L, W).
    """

    index: int
    tokens: list
    names: list
    values: np.ndarray


class TokenVectors:
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
        strategy=None,
        batch_size=32,
        max_seq_length=128,
    ):
        """Takes what to make of which model.

        Args:
          model: a `BertModel`, made in the scope of `strategy`.
          tokenizer: a `FullTokenizer`.
          layers: numbers of the layers to give, 0 for the lowest or -1 for the last.
          way: one of `WAYS` instead of them; it gives one vector.
          layer_weights: what each layer of a weighted sum weighs; None weighs them equally.
          words: None for a vector a token; "first" for one a word, that of its first token; "mean"
            for the mean over the tokens of the word.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          batch_size: the global batch.
          max_seq_length: the longest sequence; texts are cut to it.

        Raises:
          UserError: if a layer is not in the model, or the number of weights is not that of layers.
        """
        check_length(max_seq_length, model.config)
        depth, hidden = model.config.num_hidden_layers, model.config.hidden_size
        self._combine, self.names, width = _combination(layers, way, layer_weights, depth, hidden)
        self._model, self._tokenizer, self._words = model, tokenizer, words
        self._rows = TextRows(tokenizer, max_seq_length, with_words=words is not None)
        self.runner = Runner(
            self._values,
            strategy or make_strategy(),
            batch_size,
            max_seq_length,
            4 * max_seq_length * len(self.names) * width,
        )

    @classmethod
    def from_preset(cls, preset, dtype=None, strategy=None, **options):
        """Makes it of a published name, or of a folder or checkpoint.

        Args:
          preset: as `files_of` takes it, or `ModelFiles`.
          dtype: a Keras dtype policy.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          **options: for the constructor.
        """
        model, tokenizer, strategy = open_encoder(preset, dtype, strategy)
        return cls(model, tokenizer, strategy=strategy, **options)

    def __call__(self, texts):
        """Yields `TextVectors` for each of `texts`: `Text`s, or str with " ||| " in a pair."""
        texts = (as_text(index, text) for index, text in enumerate(texts))
        rows = self._rows.rows(texts)
        for sequence, found in self.runner.run(rows, "reading texts", cut=self._cut):
            tokens = self._tokenizer.convert_ids_to_tokens(sequence.input_ids)
            if self._words:
                tokens = [word.text for word in sequence.words]
            yield TextVectors(sequence.text.index, tokens, self.names, found)
        self._rows.report()

    def _values(self, batch):
        """Batch to float32 (B, S, L, W)."""
        return {"values": self._combine(self._model(batch, training=False))}

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


def open_encoder(preset, dtype=None, strategy=None, keep_special_tokens=False, **options):
    """Makes a `BertModel` with its weights.

    Args:
      preset: as `files_of` takes it, or `ModelFiles`.
      dtype: a Keras dtype policy.
      strategy: a `tf.distribute.Strategy`, None for what there is.
      keep_special_tokens: as `FullTokenizer` takes it.
      **options: for `BertModel`.

    Returns:
      (the model, its `FullTokenizer`, the strategy)
    """
    found = files_of(preset) if isinstance(preset, str) else preset
    config, tokenizer = found.open(keep_special_tokens)
    strategy = strategy or make_strategy()
    with strategy.scope():
        model = BertModel(config, dtype=dtype, **options)
    checkpoints.warm_start(model, found.checkpoint)
    return model, tokenizer, strategy


def _combination(layers, way, layer_weights, depth, hidden):
    """What to make of a model's outputs.

    Returns:
      (function from the outputs of `BertModel` to float32 (B, S, L, W), the names of the L, W)
    """
    if way is None:
        for layer in layers:
            if not -depth <= layer < depth:
                raise UserError(
                    f"--layers: there is no layer {layer}, the model has {depth}: 0 to "
                    f"{depth - 1}, or -1 to -{depth}"
                )
        return lambda outputs: _stack(outputs, layers), list(layers), hidden
    if way not in WAYS:
        raise UserError(f"--way: {way!r} is not one of {', '.join(WAYS)}")
    if way == "embeddings":
        return lambda outputs: _float(outputs["embedding_output"])[:, :, None], [way], hidden
    last_four = range(-4, 0)
    chosen = {
        "second_to_last": (-2,),
        "last": (-1,),
        "weighted_sum_last_four": last_four,
        "concat_last_four": last_four,
        "weighted_sum_all": range(depth),
    }[way]
    if depth < -min(chosen):
        raise UserError(f"--way={way} wants {-min(chosen)} layers, the model has {depth}")
    if way == "concat_last_four":

        def concatenate(outputs):
            parts = [_float(outputs["all_encoder_layers"][i]) for i in chosen]
            return ops.concatenate(parts, axis=-1)[:, :, None]

        return concatenate, [way], 4 * hidden
    count = len(chosen)
    shares = [1 / count] * count if layer_weights is None else list(layer_weights)
    if len(shares) != count:
        raise UserError(
            f"--layer_weights has {len(shares)} numbers, --way={way} of this model wants {count}"
        )

    def add_up(outputs):
        values = _stack(outputs, chosen)  # (B, S, L, H)
        return ops.sum(values * ops.reshape(ops.array(shares, "float32"), (-1, 1)), 2)[:, :, None]

    return add_up, [way], hidden


def _float(x):
    return keras.ops.cast(x, "float32")


def _stack(outputs, layers):
    return ops.stack([_float(outputs["all_encoder_layers"][i]) for i in layers], axis=2)
