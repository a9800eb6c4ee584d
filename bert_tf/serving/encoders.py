"""Pre-trained models as SavedModels: the encoder, vectors of sentences, masked words."""

import tensorflow as tf

from bert_tf.modeling.models import INPUTS
from bert_tf.serving.exporting import Servable, prepared, texts, tokens
from bert_tf.tokenization.graph import GraphTokenizer

# Of one text; the probabilities of all words are held for each of a batch.
_MOST_MASKS = 20


def encoder(model, tokenizer, max_seq_length, options):
    """An encoder as a `Servable`: `sequence_output` (B, S, H) and `pooled_output` (B, H).

    Texts: `text`. The first and the last vector of a text are those of [CLS] and [SEP]; `tokens`
    int32 (B, S) are the ids, 0 behind them.

    Args:
      model: a `BertModel`.
      tokenizer: a `FullTokenizer`.
      max_seq_length: texts are cut to it.
      options: `exporting.Options`.
    """
    model, buckets = prepared(model, options, max_seq_length)

    def ids(inputs):
        outputs = model(inputs, training=False)
        found = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
        found = {name: tf.cast(x, tf.float32) for name, x in found.items()}
        return {**found, "tokens": tf.identity(inputs["input_ids"])}

    return _of_texts("encoder", model, tokenizer, max_seq_length, options, buckets, ids)


def sentences(sentence_encoder, options):
    """A `features.SentenceEncoder` as a `Servable`: `text` to `vectors`, float32 (B, H)."""
    model, buckets = prepared(sentence_encoder.model, options, sentence_encoder.max_seq_length)

    def ids(inputs):
        layers = model(inputs, training=False)["all_encoder_layers"]
        return {"vectors": sentence_encoder.pooled(layers, inputs["input_mask"])}

    return _of_texts(
        "vectors",
        model,
        sentence_encoder.tokenizer,
        sentence_encoder.max_seq_length,
        options,
        buckets,
        ids,
    )


def masked_words(model, tokenizer, max_seq_length, options, num_best=5):
    """A `BertPretrainer` as a `Servable`: `text` with [MASK] in it to words.

    Outputs, for the P masks of the text that has the most (20 of a text are looked at, the first
    ones), K words each: `words` string (B, P, K)
    and `probabilities` float32 (B, P, K), best first; "" and 0 behind the last mask of a text.

    Args:
      model: the model.
      tokenizer: a `FullTokenizer` that keeps special tokens.
      max_seq_length: texts are cut to it.
      options: `exporting.Options`.
      num_best: K.
    """
    model, buckets = prepared(model, options, max_seq_length)
    mask = tokenizer.vocab["[MASK]"]
    pieces = [tokenizer.inv_vocab.get(i, "") for i in range(max(tokenizer.inv_vocab) + 1)]
    # Rows that the model has beyond its vocabulary have no name.
    num_words = len(pieces)

    def ids(inputs):
        is_mask = tf.equal(inputs["input_ids"], mask)
        places = tf.RaggedTensor.from_value_rowids(
            tf.cast(tf.where(is_mask)[:, 1], tf.int32),
            tf.where(is_mask)[:, 0],
            tf.shape(is_mask, tf.int64)[0],
        )[:, :_MOST_MASKS]
        is_real = tf.sequence_mask(places.row_lengths())[:, :, None]
        positions = places.to_tensor()
        inputs = {name: inputs[name] for name in INPUTS}
        outputs = model({**inputs, "masked_lm_positions": positions}, training=False)
        chances = tf.nn.softmax(outputs["masked_lm_logits"])[:, :, :num_words]
        chances, words = tf.math.top_k(chances, min(num_best, num_words))
        return {
            "words": tf.where(is_real, tf.gather(tf.constant(pieces), words), ""),
            "probabilities": tf.where(is_real, chances, 0.0),
        }

    size = max_seq_length
    return _of_texts("masked_words", model, tokenizer, size, options, buckets, ids, "[MASK]")


def _of_texts(task, model, tokenizer, max_seq_length, options, buckets, ids, sample=""):
    """A `Servable` of single texts, whose words are all that `ids` sees."""
    kept = bool(tokenizer.special_tokens)
    lower = tokenizer.basic_tokenizer.do_lower_case
    in_graph = GraphTokenizer(tokenizer.vocab, lower, keep_special_tokens=kept)

    def text(inputs):
        batch = in_graph(inputs["text"], max_seq_length=max_seq_length, pad_to_longest=True)
        return ids(buckets.pad(batch))

    return Servable(
        task,
        (model, in_graph),
        in_graph,
        max_seq_length,
        text,
        texts("text"),
        lambda filler: {"text": f"{sample} {filler.partition(' ')[2]}" if sample else filler},
        ids,
        tokens(),
        {},
        options,
    )
