"""Servables of pre-trained models: the encoder, sentence embeddings, masked words."""

import tensorflow as tf

from bert_tf.modeling.models import INPUTS
from bert_tf.serving.exporting import Servable, string_specs
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization.graph import GraphTokenizer

# Of one text: the probabilities of the whole vocabulary are in memory for each mask of a batch.
_MAX_MASKS = 20


def encoder_servable(model, tokenizer, max_seq_length, options):
    """Return a `BertModel` with its `FullTokenizer` as a `Servable`.

    Text input: `text`. Outputs: `sequence_output` (B, S, H), `pooled_output` (B, H), and `tokens`,
    int32 (B, S), the token ids with 0 for padding. The first and last vectors of a text are those
    of [CLS] and [SEP].
    """
    model, call, buckets = prepare_model(model, options, max_seq_length)

    def serve_ids(inputs):
        outputs = call(inputs)
        outputs = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
        outputs = {name: tf.cast(x, tf.float32) for name, x in outputs.items()}
        return {**outputs, "tokens": tf.identity(inputs["input_ids"])}

    return _single_text_servable("encoder", model, tokenizer, buckets, options, serve_ids)


def sentence_embedding_servable(sentence_encoder, options):
    """Return a `bert_tf.SentenceEncoder` as a `Servable`: `text` to `vectors`, float32 (B, H)."""
    length, tokenizer = sentence_encoder.max_seq_length, sentence_encoder.tokenizer
    model, call, buckets = prepare_model(sentence_encoder.model, options, length)

    def serve_ids(inputs):
        return {"vectors": sentence_encoder.compute(call, inputs)}

    return _single_text_servable(
        "sentence_embedding", model, tokenizer, buckets, options, serve_ids
    )


def fill_mask_servable(model, tokenizer, max_seq_length, options, num_best=5):
    """Return a `BertPretrainer` as a `Servable` that predicts [MASK] words.

    Text input: `text`, whose first 20 masks are predicted. Outputs, for P masks (of the text that
    has the most) and the K best words for each, best first: `words`, string (B, P, K), and
    `probabilities`, float32 (B, P, K); "" and 0 after the last mask of a text. `num_best` is K, and
    the `FullTokenizer` must keep special tokens.
    """
    model, call, buckets = prepare_model(model, options, max_seq_length)
    mask_id, id_to_token = tokenizer.vocab["[MASK]"], tokenizer.inv_vocab
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
        logits = call(inputs)["masked_lm_logits"]
        # The embedding table may have more rows than the vocabulary has words.
        probabilities = tf.nn.softmax(logits)[:, :, :num_words]
        probabilities, best = tf.math.top_k(probabilities, min(num_best, num_words))
        return {
            "words": tf.where(is_mask, tf.gather(tf.constant(words), best), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
        }

    def to_sample(text):
        return f"[MASK] {text.partition(' ')[2]}"  # instead of the first word

    return _single_text_servable(
        "fill_mask", model, tokenizer, buckets, options, serve_ids, to_sample
    )


def _single_text_servable(
    task, model, tokenizer, buckets, options, serve_ids, to_sample=lambda text: text
):
    """Return a `Servable` whose only input is `text` and that needs nothing but its token ids."""
    graph_tokenizer = GraphTokenizer(
        tokenizer.vocab,
        keep_special_tokens=bool(tokenizer.special_tokens),
        **tokenizer.settings,
    )
    return Servable(
        task=task,
        trackables=(model, graph_tokenizer),
        tokenizer=graph_tokenizer,
        buckets=buckets,
        serve_text=lambda inputs: serve_ids(buckets.tokenize(graph_tokenizer, inputs["text"])),
        text_signature=string_specs("text"),
        sample_text=lambda text: {"text": to_sample(text)},
        serve_ids=serve_ids,
        options=options,
    )
