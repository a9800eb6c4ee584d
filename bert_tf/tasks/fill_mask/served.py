"""Servable for masked words: returns the best words for each [MASK] in a text."""

import tensorflow as tf
from keras import ops

from bert_tf.modeling.models import INPUTS
from bert_tf.serving.exporting import text_servable
from bert_tf.serving.predictor import Answers
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.special_tokens import MASK
from bert_tf.tokenization.vocabulary import mask_id

# Limit per text, because each mask of a batch needs the probabilities of the whole vocabulary.
_MAX_MASKS = 20


def best_words(logits, config):
    """Return the probabilities and ids (B, P, K) of the K best words, best first."""
    # The embedding table may have more rows than the vocabulary.
    probabilities = ops.softmax(logits)[..., : max(config.vocab.values()) + 1]
    return ops.top_k(probabilities, min(config.num_best, len(config.vocab)))


def fill_mask_servable(model, config, serving_config):
    """Return a `BertPretrainer` with its `FillMaskConfig` as a `Servable`.

    Text input: `text`; only its first 20 masks are predicted. Outputs: `words`, string (B, P, K),
    and `probabilities`, float32 (B, P, K), the K = `num_best` best words for each of P masks, best
    first, padded with "" and 0.
    """
    prepared = prepare_model(model, serving_config, config.max_seq_length)
    tokenizer = FullTokenizer(config.vocab, keep_special_tokens=True, **config.tokenizer_settings)
    token_id, id_to_token = mask_id(config.vocab), tokenizer.inv_vocab
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

    return text_servable(
        "fill_mask", prepared, tokenizer, serve_ids,
        sample_text=sample_text, has_variable_width=True,
    )  # fmt: skip


class FillMaskAnswers(Answers):
    """The outputs without the padding of texts with fewer masks than others in the batch."""

    @staticmethod
    def answer(outputs, metadata):
        size = int((outputs["probabilities"][:, 0] != 0).sum())
        return Answers.answer({name: value[:size] for name, value in outputs.items()}, metadata)
