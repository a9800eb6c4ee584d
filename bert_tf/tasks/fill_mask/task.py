"""Masked words: the config, the records of texts, and the servable."""

import dataclasses
import functools

import tensorflow as tf
from keras import ops

from bert_tf.configs.base import derived
from bert_tf.configs.task import TaskConfig
from bert_tf.data import records
from bert_tf.data.dynamic_masking import DynamicMasking
from bert_tf.data.features import Features, encode_batches, make_records
from bert_tf.modeling.models import INPUTS
from bert_tf.serving.exporting import Servable
from bert_tf.serving.predictor import all_outputs
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization.packing import pack_pair
from bert_tf.tokenization.settings import MASK
from bert_tf.tokenization.vocabulary import mask_id
from bert_tf.training.pretraining import PretrainingTask
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
        options = {"tokenizer": tokenizer, "max_seq_length": limit}
        convert = functools.partial(make_records, _pack, _UNMASKED, limit, options)
        features = Features(_UNMASKED, pieces, convert, {}, axes, num_examples=len(pieces))
        if split == "train":
            features.masking = masking
        else:
            features.schema = _MASKED
            features.finish = functools.partial(_mask, masking, axes)
        return features

    def make_task(self, model, pad_to_max_length=False):
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


# Limit per text, because each mask of a batch needs the probabilities of the whole vocabulary.
_MAX_MASKS = 20


def best_words(logits, config, count=None, targets=None):
    """Return the probabilities and ids (B, P, K) of the K best words, best first.

    K is `count`, by default `config.num_best`; `targets` are the ids of the possible words.
    """
    # The embedding table may have more rows than the vocabulary.
    probabilities = ops.softmax(logits)[..., : max(config.vocab.values()) + 1]
    if targets:
        probabilities = ops.take(probabilities, targets, -1)
    count = min(count or config.num_best, len(targets or config.vocab))
    probabilities, best = ops.top_k(probabilities, count)
    return probabilities, ops.take(targets, best) if targets else best


def fill_mask_servable(model, config, serving_config):
    """Return a `BertPretrainer` with its `FillMaskConfig` as a `Servable`.

    Text input: `text`; only its first 20 masks are predicted. Outputs: `words`, string (B, P, K),
    and `probabilities`, float32 (B, P, K), the K = `num_best` best words for each of P masks, best
    first, padded with "" and 0.
    """
    prepared = prepare_model(model, config, serving_config, keep_special_tokens=True)
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
        logits = prepared.call(inputs)["masked_lm_logits"]
        probabilities, best = best_words(logits, config)
        return {
            "words": tf.where(is_mask, tf.gather(tf.constant(words), best), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
        }

    def sample_text(text):
        return {"text": f"{MASK} {text.partition(' ')[2]}"}  # masks the first word

    return Servable(
        "fill_mask", prepared, prepared.with_tokenizer(serve_ids, "text"), serve_ids,
        sample_text=sample_text, has_variable_width=True,
    )  # fmt: skip


def fill_mask_answer(outputs, metadata):
    """Return the outputs without the padding of texts with fewer masks than others in the batch."""
    size = int((outputs["probabilities"][:, 0] != 0).sum())
    return all_outputs({name: value[:size] for name, value in outputs.items()}, metadata)
