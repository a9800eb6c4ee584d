"""Servable for text classification and regression."""

import tensorflow as tf

from bert_tf import console
from bert_tf.serving.exporting import Servable, string_specs, token_id_specs
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.classification.examples import normalize, scaling
from bert_tf.tasks.classification.objective import OBJECTIVES
from bert_tf.tokenization.packing_graph import Windows, pack


def classification_servable(model, config, serving_config):
    """Return a `BertClassifier` with its `ClassificationConfig` as a `Servable`.

    Text inputs: `text`, or for pairs `text_a` and `text_b` ("" for none); `numbers`, float64
    (B, F), for F numeric features in the units of the training data.

    Float32 outputs for L labels: `logits` (B, L) and `probabilities` (B, L), or `score` (B,) for
    regression. Models of texts also return strings: `labels` (B, L), and for `classification`
    `label` (B,), the most probable label.

    With `long_documents=windows`, token ids are (B, W, S); windows with mask 0 are ignored.
    """
    prepared = prepare_model(model, config, serving_config)
    numbers = config.numeric_inputs

    def normalized(inputs):
        return tf.cast(normalize(inputs["numbers"], numbers), tf.float32)

    def serve_ids(inputs):
        if numbers:
            inputs = {**inputs, "numbers": normalized(inputs)}
        return make_outputs(prepared.call(inputs)["logits"])

    def make_outputs(logits):
        answers = OBJECTIVES[config.task_type].answers(logits, tf.nn)
        # Models with `inputs="ids"` may be converted to LiteRT, which cannot repeat strings.
        names = _label_names(config, logits) if serving_config.inputs == "text" else {}
        return {"logits": logits, **answers, **names}

    def add_to_onnx(graph, inputs):
        pooled = graph.pool(graph.encode(inputs, graph.first))
        if numbers:
            means, scales = scaling(numbers)
            values = graph.op("Div", graph.op("Sub", inputs["numbers"], means), scales)
            pooled = graph.op("Concat", pooled, graph.cast(values, "float32"), axis=1)
        logits = graph.project(pooled, "")
        if config.task_type == "regression":
            return {"logits": logits, "score": graph.op("Squeeze", logits, [1])}
        activation = OBJECTIVES[config.task_type].activation
        return {"logits": logits, "probabilities": graph.op(activation.capitalize(), logits)}

    names = ("text",) if config.num_texts == 1 else ("text_a", "text_b")
    ids_specs = token_id_specs()
    if config.windows:
        ids_specs = token_id_specs(None, None, None)

        def serve_text(inputs):
            values = normalized(inputs) if numbers else None
            return make_outputs(_classify_documents(prepared, config, inputs["text"], values))
    else:
        serve_text = prepared.with_tokenizer(serve_ids, *names)

    number_specs = {}
    sample = {"text_b": ""} if len(names) == 2 else {}
    if numbers:
        number_specs["numbers"] = tf.TensorSpec((None, len(numbers)), tf.float64, name="numbers")
        sample["numbers"] = [0.0] * len(numbers)
    metadata = {"labels": config.labels, "numbers": [number.name for number in numbers]}
    if columns := config.trained_on.columns:
        metadata["columns"] = columns
    if config.windows:
        metadata["windows"] = config.windows._asdict()
    if config.numeric_features and not numbers:
        metadata["numbers_in_text"] = [number.name for number in config.numeric_features]
        console.warning(
            "the model was trained on texts that start with the numeric features %s; texts for the "
            "exported model must also start with them",
            ", ".join(metadata["numbers_in_text"]),
        )
    return Servable(
        task=config.task_type,
        prepared=prepared,
        serve_text=serve_text,
        serve_ids=serve_ids,
        text_signature={**string_specs(*names), **number_specs},
        ids_signature={**ids_specs, **number_specs},
        sample_text=lambda text: {names[0]: text, **sample},
        metadata=metadata,
        add_to_onnx=None if config.windows else add_to_onnx,
    )


def _label_names(config, logits):
    """Return the string outputs; `labels` has B rows, because TF Serving requires it."""
    if not config.labels:
        return {}
    names = tf.constant([config.labels])
    outputs = {"labels": tf.gather(names, tf.zeros_like(logits[:, 0], tf.int32))}
    if config.task_type == "classification":
        outputs["label"] = tf.gather(names[0], tf.argmax(logits, -1, tf.int32))
    return outputs


def _classify_documents(prepared, config, texts, numbers):
    """Return the logits (B, L) of texts (B,), pooled over their windows as in training.

    `numbers` are normalized, float32 (B, F), or None.
    """
    settings = config.windows
    tokens = prepared.tokenizer.tokenize(texts)
    windows = Windows(tokens, settings.size, settings.stride, settings.max_windows, keep_empty=True)

    def predict_windows(rows):
        inputs = pack(prepared.tokenizer.vocab, prepared.buckets, windows.segment(rows))
        # The model treats each window as a document with one window.
        inputs = {name: value[:, None] for name, value in inputs.items()}
        if numbers is not None:
            inputs["numbers"] = tf.gather(numbers, tf.gather(windows.texts, rows))
        return [prepared.call(inputs, of_windows=True)["logits"]]

    (logits,) = windows.map(predict_windows, [(tf.float32, (None, config.num_outputs))])
    pool = tf.math.segment_max if settings.pooling == "max" else tf.math.segment_mean
    return pool(logits, windows.texts)
