"""Servables for sentence embedding: convert `text` to `vectors`, float32 (B, H)."""

from bert_tf.serving.exporting import text_servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization import FullTokenizer


def trained_servable(model, config, serving_config):
    """Return a trained model with its `SentenceEmbeddingConfig` as a `Servable`."""
    tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
    length = config.max_seq_length
    return sentence_embedding_servable(model.bert, model.pooling, length, tokenizer, serving_config)


def sentence_embedding_servable(model, pooling, max_seq_length, tokenizer, serving_config):
    """Return a `BertModel` with its `Pooling` as a `Servable`.

    Text input: `text`. Output: `vectors`, float32 (B, H).
    """
    prepared = prepare_model(model, serving_config, max_seq_length)

    def serve_ids(inputs):
        return {"vectors": pooling.compute(prepared.call, inputs)}

    return text_servable("sentence_embedding", prepared, tokenizer, serve_ids)
