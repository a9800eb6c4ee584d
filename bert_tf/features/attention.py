"""Where each head of each layer looks.

Letters of shapes: B batch, S sequence, L layers, N heads that are asked for.
"""

from keras import ops

from bert_tf.errors import UserError
from bert_tf.features.runner import Runner
from bert_tf.features.texts import TextRows, as_text
from bert_tf.features.tokens import TextVectors, open_encoder
from bert_tf.tasks.checks import check_length
from bert_tf.training import make_strategy


class Attention:
    """Texts to attention probabilities.

    >>> attention = Attention.from_preset("uncased_L-12_H-768_A-12")
    >>> for text in attention(["The cat sat on the mat."]):
    ...     text.tokens, text.values  # (L, N, S, S): from each token to each token

    Attributes:
      layers, heads: numbers of those that are given, from 0.
    """

    def __init__(
        self,
        model,
        tokenizer,
        layers=None,
        heads=None,
        strategy=None,
        batch_size=32,
        max_seq_length=128,
    ):
        """Takes what to give of which model.

        Args:
          model: a `BertModel` made `with_attention_probs`, in the scope of `strategy`.
          tokenizer: a `FullTokenizer`.
          layers: numbers of the layers to give, 0 for the lowest or -1 for the last; None for all.
          heads: the same of heads.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          batch_size: the global batch.
          max_seq_length: the longest sequence; texts are cut to it.

        Raises:
          UserError: if the model has no such layer or head.
        """
        check_length(max_seq_length, model.config)
        self.layers = _chosen(layers, model.config.num_hidden_layers, "layer")
        self.heads = _chosen(heads, model.config.num_attention_heads, "head")
        self._model, self._tokenizer = model, tokenizer
        self._rows = TextRows(tokenizer, max_seq_length)
        self.runner = Runner(
            self._values,
            strategy or make_strategy(),
            batch_size,
            max_seq_length,
            4 * len(self.layers) * len(self.heads) * max_seq_length**2,
        )

    @classmethod
    def from_preset(cls, preset, dtype=None, strategy=None, **options):
        """Makes it of a published name, or of a folder or checkpoint.

        Args:
          preset: as `features.files_of` takes it, or `features.ModelFiles`.
          dtype: a Keras dtype policy.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          **options: for the constructor.
        """
        model, tokenizer, strategy = open_encoder(
            preset, dtype, strategy, with_attention_probs=True
        )
        return cls(model, tokenizer, strategy=strategy, **options)

    def __call__(self, texts):
        """Yields a `TextVectors` for each of `texts`, its `values` (L, N, S, S).

        Args:
          texts: `Text`s, or str with " ||| " in a pair.
        """
        rows = self._rows.rows(as_text(index, text) for index, text in enumerate(texts))
        for sequence, found in self.runner.run(rows, "reading texts", cut=_cut):
            tokens = self._tokenizer.convert_ids_to_tokens(sequence.input_ids)
            yield TextVectors(sequence.text.index, tokens, self.layers, found)
        self._rows.report()

    def _values(self, batch):
        """Batch to float32 (B, L, N, S, S)."""
        probs = self._model(batch, training=False)["attention_probs"]
        chosen = ops.stack([probs[layer] for layer in self.layers], axis=1)
        return {"values": ops.cast(ops.take(chosen, self.heads, axis=2), "float32")}


def _cut(row, found):
    length = len(row.input_ids)
    return found["values"][:, :, :length, :length].copy()


def _chosen(numbers, count, what):
    """Numbers from 0 of what is asked for; UserError if there is no such layer or head."""
    if numbers is None:
        return list(range(count))
    for number in numbers:
        if not -count <= number < count:
            raise UserError(
                f"--{what}s: there is no {what} {number}, the model has {count}: 0 to {count - 1}"
            )
    return [number % count for number in numbers]
