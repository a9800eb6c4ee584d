"""Servable of sentence embeddings: texts in, their vectors out."""

from bert_tf.serving.exporting import text_servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.sentence_embedding import SPEC


def pretrained_servable(preset, options, max_seq_length=None):
    """Return a pre-trained model as a `Servable`; None for the length of its folder."""
    encoder = SPEC.pipeline.from_preset(preset, max_seq_length=max_seq_length)
    return sentence_embedding_servable(encoder, options)


def sentence_embedding_servable(sentence_encoder, options):
    """Return a `bert_tf.SentenceEncoder` as a `Servable`: `text` to `vectors`, float32 (B, H)."""
    prepared = prepare_model(sentence_encoder.model, options, sentence_encoder.max_seq_length)

    def serve_ids(inputs):
        return {"vectors": sentence_encoder.compute(prepared.call, inputs)}

    return text_servable("sentence_embedding", prepared, sentence_encoder.tokenizer, serve_ids)
