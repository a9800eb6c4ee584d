"""Classifiers of every kind, and choosers between endings, as SavedModels."""

import tensorflow as tf

from bert_tf import console
from bert_tf.serving.exporting import Servable, prepared, texts, tokens
from bert_tf.tasks import TASK_CLASSES
from bert_tf.tasks.classification.examples import normalize
from bert_tf.tokenization.graph import GraphTokenizer


def classifier(model, settings, options):
    """A classifier as a `Servable`.

    Texts: `text`, or `text_a` and `text_b` ("" for none) where it was trained on pairs; with
    numbers beside the text also `numbers` float64 (B, F), as they stand in the data. Outputs,
    float32: `logits` (B, labels) and what the task makes of them: `probabilities` (B, labels), of a
    regression `score` (B,).

    Args:
      model: a `BertClassifier`.
      settings: the `tasks.Settings` that it was trained with.
      options: `exporting.Options`.
    """
    model, buckets = prepared(model, options, settings.max_seq_length)
    tokenizer = GraphTokenizer(settings.vocab_file, settings.do_lower_case)
    numbers = settings.numeric_inputs

    def ids(inputs):
        if numbers:
            small = tf.cast(normalize(inputs["numbers"], numbers), tf.float32)
            inputs = {**inputs, "numbers": small}
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, **TASK_CLASSES[settings.task_type].answers(logits)}

    names = ("text",) if settings.num_texts == 1 else ("text_a", "text_b")

    def text(inputs):
        pair = [inputs[name] for name in names]
        batch = tokenizer(*pair, max_seq_length=settings.max_seq_length, pad_to_longest=True)
        more = {"numbers": inputs["numbers"]} if numbers else {}
        return ids({**buckets.pad(batch), **more})

    beside = {}
    if numbers:
        beside["numbers"] = tf.TensorSpec((None, len(numbers)), tf.float64, name="numbers")
    sample = {"text_b": ""} if len(names) == 2 else {}
    if numbers:
        sample["numbers"] = [0.0] * len(numbers)
    about = {"labels": settings.labels, "numbers": [number.name for number in numbers]}
    if settings.numeric_features and not numbers:
        about["numbers_in_text"] = [number.name for number in settings.numeric_features]
        console.warning(
            "the model was trained on texts with numbers in front (%s): its texts need them too",
            ", ".join(about["numbers_in_text"]),
        )
    return Servable(
        settings.task_type,
        (model, tokenizer),
        tokenizer,
        settings.max_seq_length,
        text,
        {**texts(*names), **beside},
        lambda filler: {names[0]: filler, **sample},
        ids,
        {**tokens(), **beside},
        about,
        options,
    )


def chooser(model, settings, options):
    """A chooser as a `Servable`.

    Texts: `context` (B,) and `endings` (B, C), with any C. Outputs: `logits` and `probabilities`
    float32 (B, C). Ids are (B, C, S).

    Args:
      model: a `BertMultipleChoice`.
      settings: the `tasks.choice.ChoiceSettings` that it was trained with.
      options: `exporting.Options`.
    """
    model, buckets = prepared(model, options, settings.max_seq_length)
    tokenizer = GraphTokenizer(settings.vocab_file, settings.do_lower_case)

    def ids(inputs):
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def text(inputs):
        shape = tf.shape(inputs["endings"])
        batch = tokenizer(
            tf.repeat(inputs["context"], shape[1]),
            tf.reshape(inputs["endings"], (-1,)),
            max_seq_length=settings.max_seq_length,
            pad_to_longest=True,
        )
        batch = buckets.pad(batch)
        length = tf.shape(batch["input_ids"])[1]
        return ids({name: tf.reshape(x, (*tf.unstack(shape), length)) for name, x in batch.items()})

    endings = tf.TensorSpec((None, None), tf.string, name="endings")
    return Servable(
        "choice",
        (model, tokenizer),
        tokenizer,
        settings.max_seq_length,
        text,
        {**texts("context"), "endings": endings},
        lambda filler: {"context": filler, "endings": ["", ""]},
        ids,
        tokens(None, None, None),
        {},
        options,
    )
