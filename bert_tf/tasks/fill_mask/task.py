"""The config of `FillMask`, and the records of its texts."""

import dataclasses
import functools

import tensorflow as tf

from bert_tf.configs.base import derived
from bert_tf.configs.task import TaskConfig
from bert_tf.data import records
from bert_tf.data.dynamic_masking import DynamicMasking
from bert_tf.data.features import Convert, Features, encode_batches
from bert_tf.tokenization.packing import pack_pair
from bert_tf.training.pretraining_task import PretrainingTask
from bert_tf.training.task import TaskData

_UNMASKED = records.pretraining_schema(has_next_sentence=False, has_masks=False)
_MASKED = records.pretraining_schema(has_next_sentence=False)


@dataclasses.dataclass(frozen=True)
class FillMaskConfig(TaskConfig):
    """The config of `FillMask`; `num_best` is the number of words to predict for each [MASK]."""

    num_best: int = derived(5, minimum=1)


class FillMaskData(TaskData):
    """Texts, and the fraction of tokens to mask."""

    def __init__(self, examples, config, masked_lm_prob, seed):
        super().__init__(examples, config)
        self._masked_lm_prob, self._seed = masked_lm_prob, seed

    def features(self, split, tokenizer):
        """Return the `Features` of sequences of up to `max_seq_length` tokens.

        Training sequences are masked anew in each batch, others here.
        """
        limit = self.config.max_seq_length
        size = limit - 2
        pieces = [
            ids[first : first + size]
            for ids in encode_batches(tokenizer, self.examples[split])
            for first in range(0, len(ids), size)
        ]
        num_slots = round((2 + max(map(len, pieces), default=0)) * self._masked_lm_prob)
        axes = {"S": limit, "P": max(1, num_slots)}
        seed = self._seed if split == "train" else 0
        masking = DynamicMasking(tokenizer.vocab, axes, self._masked_lm_prob, seed)
        convert = Convert(_pack, _UNMASKED, limit, tokenizer=tokenizer, max_seq_length=limit)
        features = Features(_UNMASKED, pieces, convert, {}, axes, num_examples=len(pieces))
        if split == "train":
            features.masking = masking
        else:
            features.schema = _MASKED
            features.finish = functools.partial(_mask, masking, axes)
        return features

    def make_task(self, model, train):
        return PretrainingTask(self.config.bert_config, has_pairs=False, model=model)


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
