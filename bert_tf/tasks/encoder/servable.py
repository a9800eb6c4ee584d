"""Servable for the encoder: returns the vectors of texts and their tokens."""

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.configs.task import valid_length
from bert_tf.modeling import BertModel
from bert_tf.serving.answers import Answers
from bert_tf.serving.exporting import text_servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.training.task_spec import ServedTask, TaskSpec


def pretrained_servable(preset, serving_config, max_seq_length=None):
    """Return a pre-trained model as a `Servable`; see `encoder_servable`."""
    length = valid_length(max_seq_length, preset.bert_config)
    model = BertModel(preset.bert_config)
    checkpoints.warm_start(model, preset.checkpoint, require_all=True)
    return encoder_servable(model, preset.tokenizer, length, serving_config)


def encoder_servable(model, tokenizer, max_seq_length, serving_config):
    """Return a `BertModel` with its `FullTokenizer` as a `Servable`.

    Text input: `text`. Outputs: `sequence_output` (B, S, H), `pooled_output` (B, H), and `tokens`,
    int32 (B, S), the token ids with [CLS] and [SEP], 0 for padding.
    """
    prepared = prepare_model(model, serving_config, max_seq_length)

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


SPEC = TaskSpec(
    name="encoder",
    pretrained_servable=pretrained_servable,
    served={"encoder": ServedTask(EncoderAnswers)},
)
