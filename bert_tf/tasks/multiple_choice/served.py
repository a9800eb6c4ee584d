"""Servable for multiple choice: returns the best ending of a context."""

import tensorflow as tf

from bert_tf.serving.exporting import Servable, string_specs, token_id_specs
from bert_tf.serving.predictor import Answers, plain
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tokenization.graph import GraphTokenizer


def multiple_choice_servable(model, config, serving_config):
    """Return a `BertMultipleChoice` with its `MultipleChoiceConfig` as a `Servable`.

    Text inputs: `context` (B,) and `endings` (B, C) for any number C of endings. Token ids are
    (B, C, S). Outputs: `logits` and `probabilities`, float32 (B, C); `choice`, int32 (B,), the
    index of the most probable ending; for text inputs also `ending`, string (B,).
    """
    prepared = prepare_model(model, serving_config, config.max_seq_length)
    tokenizer = GraphTokenizer(config.vocab, **config.tokenizer_settings)

    def serve_ids(inputs):
        logits = prepared.call(inputs)["logits"]
        choice = tf.argmax(logits, -1, tf.int32)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits), "choice": choice}

    def serve_text(inputs):
        num_rows, num_endings = tf.unstack(tf.shape(inputs["endings"]))
        contexts = tf.repeat(inputs["context"], num_endings)
        batch = prepared.buckets.tokenize(tokenizer, contexts, tf.reshape(inputs["endings"], (-1,)))
        shape = (num_rows, num_endings, tf.shape(batch["input_ids"])[1])
        outputs = serve_ids({name: tf.reshape(x, shape) for name, x in batch.items()})
        ending = tf.gather(inputs["endings"], outputs["choice"], batch_dims=1)
        return {**outputs, "ending": ending}

    endings = tf.TensorSpec((None, None), tf.string, name="endings")
    return Servable(
        task="multiple_choice",
        prepared=prepared,
        tokenizer=tokenizer,
        serve_text=serve_text,
        serve_ids=serve_ids,
        text_signature={**string_specs("context"), "endings": endings},
        ids_signature=token_id_specs(None, None, None),
        sample_text=lambda text: {"context": text, "endings": ["", ""]},
    )


class MultipleChoiceAnswers(Answers):
    """The index of the most probable ending, and the probability of each ending."""

    @staticmethod
    def answer(outputs, metadata):
        choice = int(MultipleChoiceTask.decide(outputs))
        return {"choice": choice, "probabilities": plain(outputs["probabilities"])}
