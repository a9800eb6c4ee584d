"""`FillMask`: prediction of masked tokens, and training on the masked words of texts."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import console
from bert_tf.configs.base import check_value
from bert_tf.configs.task import DataOptions, TaskConfig
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.data.columns import ANY_TEXT, RowErrors, header_and_rows, required_text
from bert_tf.data.containers import read_table
from bert_tf.data.dynamic_masking import DynamicMasking
from bert_tf.data.features import Features, encode_batches, make_records
from bert_tf.errors import UserError
from bert_tf.io.json_files import Positive
from bert_tf.modeling.models import BertPretrainer
from bert_tf.serving.answers import best_words
from bert_tf.serving.exporting import Servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.streams import TextStream
from bert_tf.tokenization.packing import pack_pair
from bert_tf.tokenization.settings import INPUTS, MASK, UNK
from bert_tf.tokenization.vocabulary import mask_id
from bert_tf.training.pretraining import PretrainingObjective

_UNMASKED = records.pretraining_schema(has_next_sentence=False, has_masks=False)
_MASKED = records.pretraining_schema(has_next_sentence=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillMaskData(DataOptions):
    """The options of `FillMask.fit`."""

    masked_lm_prob: float = 0.15
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class FillMaskConfig(TaskConfig):
    """The config of `FillMask`; `num_best` is the number of words to predict for each [MASK]."""

    UNSAVED = ("num_best",)

    num_best: Positive = 5

    @property
    def tokenizer_settings(self):
        return {**super().tokenizer_settings, "keep_special_tokens": True}


def _pack(pieces, tokenizer, max_seq_length, lengths):
    for ids in pieces:
        yield pack_pair(ids, [], tokenizer, max_seq_length, lengths)


def _mask(masking, axes, serialized, first):
    """Return the masked records of serialized records, `first` records after the first."""
    batch = records.parse(tf.constant(serialized), _UNMASKED, axes)
    batch = masking(batch, masking.noise(first, len(serialized)))
    names, columns = zip(*((name, x.numpy()) for name, x in batch.items()), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return records.serialize(_MASKED, rows)


# Limit per text, because each mask of a batch needs the probabilities of the whole vocabulary.
_MAX_MASKS = 20


def top_words(logits, config, count=None, targets=None):
    """Return the probabilities and ids (B, P, K) of the K best words, best first.

    K is `count`, by default `config.num_best`; `targets` are the ids of the possible words.
    """
    # The embedding table may have more rows than the vocabulary.
    probabilities = ops.softmax(logits)[..., : max(config.vocab.values()) + 1]
    if targets:
        probabilities = ops.take(probabilities, targets, -1)
    count = min(config.num_best if count is None else count, len(targets or config.vocab))
    probabilities, best = ops.top_k(probabilities, count)
    return probabilities, ops.take(targets, best) if targets else best


def fill_mask_servable(model, config, serving_config):
    """Return a `BertPretrainer` with its `FillMaskConfig` as a `Servable`.

    Text input: `text`; only its first 20 masks are predicted. Outputs: `words`, string (B, P, K),
    and `probabilities`, float32 (B, P, K), the K = `num_best` best words for each of P masks, best
    first, padded with "" and 0.
    """
    prepared = prepare_model(model, config, serving_config)
    token_id, id_to_token = mask_id(config.vocab), {i: x for x, i in config.vocab.items()}
    words = [id_to_token.get(i, "") for i in range(max(id_to_token) + 1)]

    def serve_ids(inputs):
        indices = tf.where(tf.equal(inputs["input_ids"], token_id))
        positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(indices[:, 1], tf.int32),
            indices[:, 0],
            tf.shape(inputs["input_ids"], tf.int64)[0],
        )[:, :_MAX_MASKS]
        is_mask = tf.sequence_mask(positions.row_lengths())[:, :, None]
        inputs = {name: inputs[name] for name in INPUTS}
        inputs["masked_lm_positions"] = positions.to_tensor()
        probabilities, best = top_words(prepared.call(inputs)["masked_lm_logits"], config)
        return {
            "words": tf.where(is_mask, tf.gather(tf.constant(words), best), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
        }

    def add_to_onnx(graph, inputs):
        # The first masks have the greatest scores; other tokens have 0.
        is_mask = graph.cast(graph.op("Equal", inputs["input_ids"], np.int32(token_id)), "float32")
        numbers = graph.op("Max", graph.op("CumSum", is_mask, 1), np.float32(1))
        count = graph.op("ReduceMax", numbers, [0, 1], keepdims=0)
        count = graph.cast(graph.op("Min", count, np.float32(_MAX_MASKS)), "int64")
        scores, positions = graph.op(
            "TopK", graph.op("Div", is_mask, numbers), graph.op("Unsqueeze", count, [0]),
            num_outputs=2,
        )  # fmt: skip
        indices, name = graph.op("Unsqueeze", positions, [2]), "cls/predictions"
        x = graph.encode(inputs, lambda x: graph.op("GatherND", x, indices, batch_dims=1))
        x = graph.dense(x, f"{name}/transform/dense", config.bert_config.hidden_act)
        x = graph.norm(x, f"{name}/transform/LayerNorm")
        table = graph.op("Transpose", graph.weight("bert/embeddings/word_embeddings"), perm=[1, 0])
        logits = graph.op("Add", graph.op("MatMul", x, table), graph.weight(f"{name}/output_bias"))
        probabilities = graph.op("Slice", graph.op("Softmax", logits), [0], [len(words)], [2])
        count = [min(config.num_best, len(config.vocab))]
        probabilities, best = graph.op("TopK", probabilities, count, num_outputs=2)
        is_real = graph.op("Unsqueeze", graph.op("Greater", scores, np.float32(0)), [2])
        best = graph.op("Gather", np.array(words, object), best)
        return {
            "words": graph.op("Where", is_real, best, np.array("", object)),
            "probabilities": graph.op("Where", is_real, probabilities, np.float32(0)),
        }

    return Servable(
        "fill_mask", prepared, prepared.with_tokenizer(serve_ids, "text"), serve_ids,
        sample_text=lambda text: {"text": f"{MASK} {text.partition(' ')[2]}"},
        has_variable_width=True, add_to_onnx=add_to_onnx, metadata={"keep_special_tokens": True},
    )  # fmt: skip


# Positions per record; each needs V probabilities in memory. Texts with more have several records.
_NUM_SLOTS = 8
_SCHEMA = {name: records.PRETRAINING[name] for name in (*INPUTS, "masked_lm_positions")}


class MaskPredictions(NamedTuple):
    """The predictions for the [MASK] tokens of a text.

    Attributes:
      tokens: list of the text's tokens, including [CLS] and [SEP].
      positions: indices of [MASK] in `tokens`.
      best: list of dicts for each position, with a "token_str" and its probability "score", best
        first.
    """

    tokens: list
    positions: list
    best: list


class FillMask(TextStream):
    """Predicts masked tokens, and adapts models to a domain.

    >>> fill_mask = bert_tf.FillMask.from_preset("uncased_L-12_H-768_A-12")
    >>> fill_mask.predict("The capital of France is [MASK].")
    [{'token_str': ..., 'score': ...}, ...]

    Each epoch of `fit` masks different tokens. As in the release, 80 % of them become [MASK], 10 %
    a random token, and 10 % stay. The loss is the mean over the masked tokens of a batch, without
    next sentence prediction. `evaluate` returns the loss and the accuracy, as in pre-training, and
    masks the same tokens in every call. `save_to_preset` writes a Hugging Face folder. `model` is a
    `BertPretrainer`.

    Data of `fit` and `evaluate`:
      texts: list of texts, or a table with a column such as "text". Long texts are split into
        sequences of `max_seq_length` tokens, which are the examples of a batch.

    Options of `fit`:
      masked_lm_prob: fraction of the tokens to mask, 0.15 by default; also of `evaluate`.
      seed: random seed of the masks and of the order of the sequences. A repeated `fit` masks the
        same tokens.
    """

    name = "fill_mask"
    config_class, data_class = FillMaskConfig, FillMaskData
    arguments = ("texts",)
    fit_options, evaluate_options = ("masked_lm_prob", "seed"), ("masked_lm_prob",)
    pretrained_head = "cls/predictions/"
    make_servable = staticmethod(fill_mask_servable)
    config: FillMaskConfig

    def __init__(self, model: BertPretrainer, config: FillMaskConfig):
        super().__init__(model, config)
        self._mask_id = mask_id(self.config.vocab)

    @staticmethod
    def make_model(config, dtype=None):
        return BertPretrainer(config.bert_config, dtype)

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
        if isinstance(texts, str):
            return self.predict([texts], batch_size, **options)[0]
        results = (x.best for x in self.stream(texts, batch_size, **options))
        return [best[0] if len(best) == 1 else best for best in results]

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
            probabilities are computed among all words.
        """
        check_value("top_k", top_k, Positive | None)
        ids: list = []
        vocab = self.config.vocab
        for word in [targets] if isinstance(targets, str) else targets or ():
            tokens = [vocab[word]] if word in vocab else self.tokenizer.encode(word)
            if len(tokens) != 1 or self._names(tokens) == [UNK]:
                pieces = " ".join(self._names(tokens))
                raise UserError(f"`targets`: {word!r} is {pieces!r}, expected words of one token")
            ids += {*tokens} - {*ids}
        count = (len(ids) or self.config.num_best) if top_k is None else top_k

        def best_of(outputs, batch):
            top = top_words(outputs["masked_lm_logits"], self.config, count, ids)
            return dict(zip(("probabilities", "ids"), top, strict=True))

        results = self._run(
            best_of, self._rows(texts), _SCHEMA, batch_size, "predicting words",
            8 * _NUM_SLOTS * count, key=(count, *ids), P=_NUM_SLOTS,
        )  # fmt: skip
        best: list = []
        num_unmasked = 0
        for (tokens, positions, length), arrays in results:
            words = map(self._names, arrays["ids"][:length])
            best += best_words(words, arrays["probabilities"][:length].tolist())
            if len(best) == len(positions):
                num_unmasked += not positions
                yield MaskPredictions(self._names(tokens), positions, best)
                best = []
        if num_unmasked:
            console.warning("%d texts contain no %s and have no predictions", num_unmasked, MASK)

    def _rows(self, texts):
        """Yield ((ids of a text, positions of its masks, number of masks here), features)."""
        for features in self._pack_pairs(texts):
            ids = features["input_ids"]
            positions = [i for i, x in enumerate(ids) if x == self._mask_id]
            for first in range(0, len(positions) or 1, _NUM_SLOTS):
                part = positions[first : first + _NUM_SLOTS]
                slots = [*part, *[0] * (_NUM_SLOTS - len(part))]
                yield (ids, positions, len(part)), {**features, "masked_lm_positions": slots}

    def _names(self, ids):
        return [self.tokenizer.inv_vocab.get(int(x), "") for x in ids]

    def make_examples(self, columns, names, split):
        table, _ = read_table(columns, names, (("text",),), 1, (ANY_TEXT,))
        _, find, rows = header_and_rows(table)
        column = find(ANY_TEXT, names[0])
        return RowErrors().examples(
            table.name, rows, lambda *x: required_text(x[-1][column], "text")
        )

    def features(self, data, split):
        """Return the `Features` of sequences of up to `max_seq_length` tokens.

        Each batch masks training sequences differently. Other sequences are masked once, here.
        """
        tokenizer, limit = self.tokenizer, data.config.max_seq_length
        probability, size = data.options.masked_lm_prob, limit - 2
        pieces = [
            ids[first : first + size]
            for ids in encode_batches(tokenizer, data.examples[split])
            for first in range(0, len(ids), size)
        ]
        num_slots = round((2 + max(map(len, pieces), default=0)) * probability)
        axes = {"S": limit, "P": max(1, num_slots)}
        seed = data.options.seed if split == "train" else 0
        masking = DynamicMasking(tokenizer.vocab, axes, probability, seed)
        options = {"tokenizer": tokenizer, "max_seq_length": limit}
        convert = functools.partial(make_records, _pack, _UNMASKED, limit, options)
        features = Features(_UNMASKED, pieces, convert, {}, axes, num_examples=len(pieces))
        if split == "train":
            features.masking = masking
        else:
            features.schema = _MASKED
            features.finish = functools.partial(_mask, masking, axes)
        return features

    def objective(self, data):
        return PretrainingObjective(data.config.bert_config, has_pairs=False, model=self.model)
