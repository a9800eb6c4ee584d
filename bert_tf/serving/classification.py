"""Servables of models that classify texts or choose one of several endings."""

import tensorflow as tf

from bert_tf import console
from bert_tf.serving.exporting import Servable, prepare_model, string_specs, token_id_specs
from bert_tf.tasks import TASK_CLASSES
from bert_tf.tasks.classification.examples import normalize
from bert_tf.tokenization.graph import GraphTokenizer


def classification_servable(model, config, options):
    """Return a `BertClassifier` as a `Servable`, given the `ClassificationConfig` of its training.

    Text inputs: `text`, or `text_a` and `text_b` ("" for none) if the model was trained on pairs;
    `numbers`, float64 (B, F), if it has F numeric features, in the units of the training data.
    Outputs, float32: `logits` (B, L) for L labels, and `probabilities` (B, L), or `score` (B,) for
    regression.
    """
    model, buckets = prepare_model(model, options, config.max_seq_length)
    tokenizer = GraphTokenizer(config.vocab_file, **config.tokenizer_settings)
    numbers = config.numeric_inputs

    def serve_ids(inputs):
        if numbers:
            normalised = tf.cast(normalize(inputs["numbers"], numbers), tf.float32)
            inputs = {**inputs, "numbers": normalised}
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, **TASK_CLASSES[config.task_type].answers(logits)}

    names = ("text",) if config.num_texts == 1 else ("text_a", "text_b")

    def serve_text(inputs):
        batch = buckets.tokenize(tokenizer, *(inputs[name] for name in names))
        if numbers:
            batch["numbers"] = inputs["numbers"]
        return serve_ids(batch)

    number_specs = {}
    sample = {"text_b": ""} if len(names) == 2 else {}
    if numbers:
        spec = tf.TensorSpec((None, len(numbers)), tf.float64, name="numbers")
        number_specs["numbers"] = spec
        sample["numbers"] = [0.0] * len(numbers)
    metadata = {"labels": config.labels, "numbers": [number.name for number in numbers]}
    if config.numeric_features and not numbers:
        metadata["numbers_in_text"] = [number.name for number in config.numeric_features]
        console.warning(
            "the model was trained on texts that begin with the numeric features %s; the texts "
            "sent to the exported model must begin with them too",
            ", ".join(metadata["numbers_in_text"]),
        )
    return Servable(
        task=config.task_type,
        trackables=(model, tokenizer),
        tokenizer=tokenizer,
        buckets=buckets,
        serve_text=serve_text,
        text_signature={**string_specs(*names), **number_specs},
        sample_text=lambda text: {names[0]: text, **sample},
        serve_ids=serve_ids,
        ids_signature={**token_id_specs(), **number_specs},
        metadata=metadata,
        options=options,
    )


def multiple_choice_servable(model, config, options):
    """Return a `BertMultipleChoice` as a `Servable`, given its `MultipleChoiceConfig`.

    Text inputs: `context` (B,) and `endings` (B, C) for any number C of endings. Outputs, float32
    (B, C): `logits` and `probabilities`. Token ids are (B, C, S).
    """
    model, buckets = prepare_model(model, options, config.max_seq_length)
    tokenizer = GraphTokenizer(config.vocab_file, **config.tokenizer_settings)

    def serve_ids(inputs):
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def serve_text(inputs):
        num_rows, num_endings = tf.unstack(tf.shape(inputs["endings"]))
        contexts = tf.repeat(inputs["context"], num_endings)
        batch = buckets.tokenize(tokenizer, contexts, tf.reshape(inputs["endings"], (-1,)))
        shape = (num_rows, num_endings, tf.shape(batch["input_ids"])[1])
        return serve_ids({name: tf.reshape(x, shape) for name, x in batch.items()})

    endings = tf.TensorSpec((None, None), tf.string, name="endings")
    return Servable(
        task="multiple_choice",
        trackables=(model, tokenizer),
        tokenizer=tokenizer,
        buckets=buckets,
        serve_text=serve_text,
        text_signature={**string_specs("context"), "endings": endings},
        sample_text=lambda text: {"context": text, "endings": ["", ""]},
        serve_ids=serve_ids,
        ids_signature=token_id_specs(None, None, None),
        options=options,
    )
