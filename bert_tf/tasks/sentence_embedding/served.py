"""The servable for sentence embedding."""

from bert_tf.serving.exporting import text_servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization import FullTokenizer


def sentence_embedding_servable(model, config, serving_config):
    """Return a `ColumnModel` with its `SentenceEmbeddingConfig` as a `Servable`.

    Text input: `text`. Output: `vectors`, float32 (B, H).
    """
    tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
    prepared = prepare_model(model.bert, serving_config, config.max_seq_length)

    def serve_ids(inputs):
        return {"vectors": model.pooling.compute(prepared.call, inputs)}

    return text_servable("sentence_embedding", prepared, tokenizer, serve_ids)
