"""Servable for masked words: returns the best words for each [MASK] in a text."""

import tensorflow as tf

from bert_tf.modeling.models import INPUTS
from bert_tf.serving.answers import Answers
from bert_tf.serving.exporting import text_servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization.special_tokens import MASK

# Limit per text, because each mask of a batch needs the probabilities of the whole vocabulary.
_MAX_MASKS = 20


def fill_mask_servable(model, tokenizer, max_seq_length, serving_config, num_best=5):
    """Return a `BertPretrainer` as a `Servable` that predicts masked words.

    Text input: `text`; only its first 20 masks are predicted. Outputs: `words`, string (B, P, K),
    and `probabilities`, float32 (B, P, K), the K = `num_best` best words for each of P masks, best
    first, padded with "" and 0. The `FullTokenizer` must keep special tokens.
    """
    prepared = prepare_model(model, serving_config, max_seq_length)
    mask_id, id_to_token = tokenizer.vocab[MASK], tokenizer.inv_vocab
    words = [id_to_token.get(i, "") for i in range(max(id_to_token) + 1)]
    num_words = len(words)

    def serve_ids(inputs):
        indices = tf.where(tf.equal(inputs["input_ids"], mask_id))
        positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(indices[:, 1], tf.int32),
            indices[:, 0],
            tf.shape(inputs["input_ids"], tf.int64)[0],
        )[:, :_MAX_MASKS]
        is_mask = tf.sequence_mask(positions.row_lengths())[:, :, None]
        inputs = {name: inputs[name] for name in INPUTS}
        inputs["masked_lm_positions"] = positions.to_tensor()
        logits = prepared.call(inputs)["masked_lm_logits"]
        # The embedding table may have more rows than the vocabulary.
        probabilities = tf.nn.softmax(logits)[:, :, :num_words]
        probabilities, best = tf.math.top_k(probabilities, min(num_best, num_words))
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
