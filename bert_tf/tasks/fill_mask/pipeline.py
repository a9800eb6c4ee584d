"""`FillMask`: prediction of masked tokens, and training on the masked words of texts."""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import keras

from bert_tf import console
from bert_tf.configs.train import BatchConfig, FitConfig
from bert_tf.data import records
from bert_tf.data.columns import ANY_TEXT, BadRows, columns_of
from bert_tf.data.containers import read_table
from bert_tf.data.tables import as_text
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS, BertPretrainer
from bert_tf.tasks.fill_mask.task import (
    FillMaskConfig,
    FillMaskData,
    best_words,
    fill_mask_answer,
    fill_mask_servable,
)
from bert_tf.tasks.streaming import StreamingPipeline, read_pairs
from bert_tf.tokenization.settings import MASK, UNK
from bert_tf.tokenization.vocabulary import mask_id
from bert_tf.training.task import ServedTask

# Positions per record; each needs V probabilities in memory. Texts with more have several records.
_NUM_SLOTS = 8
_SCHEMA = {name: records.PRETRAINING[name] for name in (*INPUTS, "masked_lm_positions")}


class MaskPredictions(NamedTuple):
    """The predictions for the [MASK] tokens of a text.

    Attributes:
      tokens: list of the text's tokens, including [CLS] and [SEP].
      positions: indices of [MASK] in `tokens`.
      best: list of pairs (token, probability) for each position, most probable first.
    """

    tokens: list
    positions: list
    best: list


class FillMask(StreamingPipeline):
    """Predicts masked tokens, and adapts models to a domain.

    >>> fill_mask = bert_tf.FillMask.from_preset("uncased_L-12_H-768_A-12")
    >>> fill_mask.predict("The capital of France is [MASK].")
    [{'token_str': ..., 'score': ...}, ...]

    `save_to_preset` writes a Hugging Face folder. `model` is a `BertPretrainer`.
    """

    name = "fill_mask"
    config_class = FillMaskConfig
    make_model = staticmethod(lambda config, dtype=None: BertPretrainer(config.bert_config, dtype))
    make_servable = staticmethod(fill_mask_servable)
    served: ClassVar = {"fill_mask": ServedTask(fill_mask_answer)}
    arguments = ("texts",)
    keep_special_tokens = True
    pretrained_head, uses_all_weights = "cls/predictions/", False
    config: FillMaskConfig

    def __init__(self, model: BertPretrainer, config: FillMaskConfig):
        super().__init__(model, config)
        self._mask_id = mask_id(self.config.vocab)

    def fit(
        self,
        texts: Any,
        validation_data: Any = None,
        masked_lm_prob: float = 0.15,
        seed: int = 0,
        **options: Any,
    ) -> keras.callbacks.History:
        """Adapt the model to a domain: train on masked words of texts with `keras.Model.fit`.

        Each epoch masks different tokens. As in the release, 80 % of them become [MASK], 10 % a
        random token, and 10 % stay. The loss is the mean over the masked tokens of a batch, without
        next sentence prediction.

        Args:
          texts: list of texts, or a table with a column such as "text": a dict of lists, a
            DataFrame, a `datasets.Dataset` or a `tf.data.Dataset` of dicts. Long texts are split
            into sequences of `max_seq_length` tokens, which are the examples of a batch.
          validation_data: like `texts`. The history gets the results of `evaluate` on it, such as
            "val_masked_lm_accuracy".
          masked_lm_prob: fraction of the tokens to mask.
          seed: random seed of the masks and of the order of the sequences. A repeated `fit` masks
            the same tokens.
          **options: attributes of `FitConfig` and `OptimizerConfig`, such as `epochs` and
            `learning_rate`, and arguments of `keras.Model.fit`, such as `callbacks`.

        Raises:
          UserError: if an argument is invalid.
        """
        task_options = {"masked_lm_prob": masked_lm_prob, "seed": seed}
        return self._fit((texts,), validation_data, options, **task_options)

    def evaluate(
        self,
        texts: Any,
        batch_size: int = FitConfig.batch_size,
        masked_lm_prob: float = 0.15,
        **options: Any,
    ) -> dict[str, float]:
        """Return a dict of the loss and the accuracy of masked words, as in pre-training.

        A fraction `masked_lm_prob` of the tokens is masked at once; the masks are the same in
        every call.
        """
        return self._evaluate((texts,), batch_size, options, masked_lm_prob=masked_lm_prob)

    def predict(self, texts: Any, batch_size: int = BatchConfig.batch_size, **options: Any) -> list:
        """Return the best words for each [MASK], as a pipeline of transformers does.

        Args:
          texts: a str, or an iterable of str; " ||| " in it separates a pair.
          batch_size: number of texts per batch.
          **options: `top_k` and `targets` of `stream`.

        Returns:
          A list of dicts with a "token_str" and its probability "score", best first; for a text
          with several [MASK], a list of such lists. If `texts` is not a str, a list of them.

        Raises:
          UserError: if an argument is invalid.
        """
        is_text, results = isinstance(texts, str), []
        for text in self.stream([texts] if is_text else texts, batch_size, **options):
            best = [[{"token_str": x, "score": y} for x, y in words] for words in text.best]
            results.append(best[0] if len(best) == 1 else best)
        return results[0] if is_text else results

    def stream(
        self,
        texts: Any,
        batch_size: int = BatchConfig.batch_size,
        top_k: int | None = None,
        targets: Any = None,
    ) -> Iterator[MaskPredictions]:
        """Yield the `MaskPredictions` of each str of an iterable; " ||| " in it separates a pair.

        An iterator is read lazily.

        Args:
          texts: an iterable of str.
          batch_size: number of texts per step.
          top_k: number of words for each [MASK]; None for `config.num_best`, or for all `targets`.
          targets: a word or a list of words of the vocabulary, the only ones to consider. Their
            probabilities are those among all words.
        """
        ids: list = []
        vocab = self.config.vocab
        for word in [targets] if isinstance(targets, str) else targets or ():
            found = [vocab[word]] if word in vocab else self.tokenizer.encode(word)
            if len(found) != 1 or self._names(found) == [UNK]:
                pieces = " ".join(self._names(found))
                raise UserError(f"`targets`: {word!r} is {pieces!r}, expected words of one token")
            ids += {*found} - {*ids}
        count = (len(ids) or self.config.num_best) if top_k is None else top_k
        if count < 1:
            raise UserError(f"`top_k={top_k}`: expected a number of words")

        def best_of(outputs, batch):
            found = best_words(outputs["masked_lm_logits"], self.config, count, ids)
            return dict(zip(("probabilities", "ids"), found, strict=True))

        found = self._run(
            best_of, self._rows(texts), _SCHEMA, batch_size, "predicting words",
            8 * _NUM_SLOTS * count, key=(count, *ids), P=_NUM_SLOTS,
        )  # fmt: skip
        best: list = []
        num_unmasked = 0
        for (tokens, positions, length), arrays in found:
            columns = (arrays[name][:length] for name in ("ids", "probabilities"))
            for row, probabilities in zip(*columns, strict=True):
                best.append([*zip(self._names(row), map(float, probabilities), strict=True)])
            if len(best) == len(positions):
                num_unmasked += not positions
                yield MaskPredictions(self._names(tokens), positions, best)
                best = []
        if num_unmasked:
            console.warning("%d texts contain no %s and have no predictions", num_unmasked, MASK)

    def _rows(self, texts):
        """Yield ((ids of a text, positions of its masks, number of masks here), features)."""
        pairs = ((None, *map(self.tokenizer.encode, pair)) for pair in read_pairs(texts))
        for _, features in self._pack(pairs):
            ids = features["input_ids"]
            positions = [i for i, x in enumerate(ids) if x == self._mask_id]
            for first in range(0, len(positions) or 1, _NUM_SLOTS):
                part = positions[first : first + _NUM_SLOTS]
                slots = [*part, *[0] * (_NUM_SLOTS - len(part))]
                yield (ids, positions, len(part)), {**features, "masked_lm_positions": slots}

    def _names(self, ids):
        return [self.tokenizer.inv_vocab.get(int(x), "") for x in ids]

    def _examples(self, columns, names, split):
        table, _ = read_table(columns, names, (("text",),), 1, {*ANY_TEXT})
        _, find, rows = columns_of(table)
        column = find(ANY_TEXT, names[0])

        def make(where, index, row):
            if not (text := as_text(row[column])).strip():
                raise ValueError("text is empty")
            return text

        return BadRows().examples(table.name, rows, make)

    def _data(self, examples, masked_lm_prob=0.15, seed=0):
        return FillMaskData(examples, self.config, masked_lm_prob, seed)
