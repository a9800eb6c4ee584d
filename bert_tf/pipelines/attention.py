"""Where each head of each layer looks.

Letters of shapes: B batch, S sequence, L layers, N heads that are asked for.
"""

import functools

from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.base import TextPipeline
from bert_tf.pipelines.tokens import TextVectors


class Attention(TextPipeline):
    """Texts to attention probabilities.

    >>> attention = Attention.from_preset("uncased_L-12_H-768_A-12")
    >>> for text in attention(["The cat sat on the mat."]):
    ...     text.tokens, text.values  # (L, N, S, S): from each token to each token

    Attributes:
      layers, heads: numbers of those that are given, from 0.
    """

    make_model = staticmethod(functools.partial(BertModel, with_attention_probs=True))

    def __init__(self, model, tokenizer, layers=None, heads=None, **how):
        """Takes what to give of which model.

        Args:
          model: a `BertModel` made `with_attention_probs`.
          tokenizer: a `FullTokenizer`.
          layers: numbers of the layers to give, 0 for the lowest or -1 for the last; None for all.
          heads: the same of heads.
          **how: `strategy`, `batch_size` and `max_seq_length`, as `TextPipeline` takes them.

        Raises:
          UserError: if the model has no such layer or head.
        """
        super().__init__(model, tokenizer, **how)
        self.layers = _chosen(layers, model.config.num_hidden_layers, "layer")
        self.heads = _chosen(heads, model.config.num_attention_heads, "head")
        count = len(self.layers) * len(self.heads)
        self._runner = self._make_runner(self._values, 4 * count * self.max_seq_length**2)

    def __call__(self, texts):
        """Yields a `TextVectors` for each of `texts`, its `values` (L, N, S, S).

        Args:
          texts: `Text`s, or str with " ||| " in a pair.
        """
        rows = self._make_rows()
        for sequence, found in self._runner.run(rows.of(texts), "reading texts", cut=_cut):
            tokens = self.tokenizer.convert_ids_to_tokens(sequence.input_ids)
            yield TextVectors(sequence.text.index, tokens, self.layers, found)
        rows.report()

    def _values(self, batch):
        """Batch to float32 (B, L, N, S, S)."""
        probs = self.model(batch, training=False)["attention_probs"]
        chosen = ops.stack([probs[layer] for layer in self.layers], axis=1)
        return {"values": ops.cast(ops.take(chosen, self.heads, axis=2), "float32")}


def _cut(row, found):
    length = len(row.input_ids)
    return found["values"][:, :, :length, :length].copy()


def _chosen(numbers, count, what):
    """Numbers from 0 of what is asked for; UserError if there is no such layer or head."""
    if numbers is None:
        return list(range(count))
    if not numbers:
        raise UserError(f"--{what}s: at least one was expected")
    for number in numbers:
        if not -count <= number < count:
            raise UserError(
                f"--{what}s: there is no {what} {number}, the model has {count}: 0 to {count - 1}"
            )
    return [number % count for number in numbers]
