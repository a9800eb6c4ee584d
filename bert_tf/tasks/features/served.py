"""Servable for the encoder: returns the vectors of texts and their tokens."""

import numpy as np
import tensorflow as tf

from bert_tf.serving.exporting import text_servable
from bert_tf.serving.predictor import Answers
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization import FullTokenizer


def encoder_servable(model, config, serving_config):
    """Return a `BertModel` with a `TaskConfig` as a `Servable`.

    Text input: `text`. Outputs: `sequence_output` (B, S, H), `pooled_output` (B, H), and `tokens`,
    int32 (B, S), the token ids with [CLS] and [SEP], 0 for padding.
    """
    prepared = prepare_model(model, serving_config, config.max_seq_length)
    tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)

    def serve_ids(inputs):
        outputs = prepared.call(inputs)
        outputs = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
        outputs = {name: tf.cast(x, tf.float32) for name, x in outputs.items()}
        return {**outputs, "tokens": tf.identity(inputs["input_ids"])}

    return text_servable("encoder", prepared, tokenizer, serve_ids, has_variable_width=True)


class EncoderAnswers(Answers):
    """The outputs without the padding of texts shorter than others in the batch."""

    @staticmethod
    def answer(outputs, metadata):
        size = int(np.flatnonzero(outputs["tokens"])[-1]) + 1
        cut = {name: outputs[name][:size] for name in ("tokens", "sequence_output")}
        return Answers.answer({**outputs, **cut}, metadata)
