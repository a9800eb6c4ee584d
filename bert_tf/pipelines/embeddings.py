"""The three embeddings that a model adds up for each token, before its first layer.

Letters of shapes: B batch, S sequence, H hidden, T tokens of one text.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from bert_tf.pipelines.base import TextPipeline


class Parts(NamedTuple):
    """What the embeddings of one text are made of.

    `tokens` are the T tokens with [CLS] and [SEP]; `input_ids` and `segment_ids` their T numbers
    and those of their texts; `word`, `segment` and `position` (T, H) are added up, and `output`
    (T, H) is their sum normalised, which is what the first layer sees (BERT paper, figure 2).
    """

    tokens: list
    input_ids: list
    segment_ids: list
    word: np.ndarray
    segment: np.ndarray
    position: np.ndarray
    output: np.ndarray


class EmbeddingParts(TextPipeline):
    """Texts to the embeddings of their tokens, each of the three by itself.

    >>> parts = EmbeddingParts.from_preset("uncased_L-12_H-768_A-12")
    >>> for text in parts(["How are you? ||| Fine."]):
    ...     text.tokens, text.word, text.segment, text.position, text.output
    """

    def __init__(self, model, tokenizer, **how):
        """Takes a `BertModel`, a `FullTokenizer` and what `TextPipeline` takes."""
        super().__init__(model, tokenizer, **how)
        bytes_per_row = 16 * self.max_seq_length * model.config.hidden_size
        self._runner = self._make_runner(self._parts, bytes_per_row)

    def __call__(self, texts):
        """Yields `Parts` for each of `texts`: `Text`s, or str with " ||| " in a pair."""
        rows = self._make_rows()

        def cut(row, found):
            length = len(row.input_ids)
            tokens = self.tokenizer.convert_ids_to_tokens(row.input_ids)
            arrays = {name: x[:length].copy() for name, x in found.items()}
            return Parts(tokens, row.input_ids, row.segment_ids, **arrays)

        for _, parts in self._runner.run(rows.of(texts), "reading texts", cut=cut):
            yield parts
        rows.report()

    def _parts(self, batch):
        """Batch to float32 (B, S, H) of each part."""
        layer = self.model.embeddings
        ids = batch["input_ids"]
        places = ops.broadcast_to(ops.arange(ops.shape(ids)[1]), ops.shape(ids))
        found = {
            "word": ops.take(layer.word_embeddings, ids, axis=0),
            "segment": ops.take(layer.token_type_embeddings, batch["segment_ids"], axis=0),
            "position": ops.take(layer.position_embeddings, places, axis=0),
            "output": self.model(batch, training=False)["embedding_output"],
        }
        return {name: ops.cast(x, "float32") for name, x in found.items()}
