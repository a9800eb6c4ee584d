"""Small models of every task and their servables, for the tests of serving."""

import functools

import keras
import numpy as np
import tensorflow as tf

from bert_tf.tasks.classification.options import ClassificationConfig, NumericFeature
from bert_tf.tasks.fill_mask.task import FillMaskConfig
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tasks.registry import exported_tasks
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig
from bert_tf.tasks.token_classification.options import Tags, TokenClassificationConfig
from bert_tf.tasks.token_vectors.task import TokenVectorsConfig
from tests.common import TINY

LENGTH = TINY.max_position_embeddings

# The classifier has two numeric features in addition to its text.
NUMBERS = (NumericFeature("x", 1.0, 2.0), NumericFeature("y", 0.0, 1.0))

TEXT = {"num_texts": 1}

# The class of each task's configuration, and its options.
CONFIGS = {
    "encoder": (TokenVectorsConfig, {}),
    "sentence_embedding": (
        SentenceEmbeddingConfig, {"pooling": "mean", "layer": -2, "normalize": False}
    ),
    "fill_mask": (FillMaskConfig, {"num_best": 3}),
    "classification": (
        ClassificationConfig, {**TEXT, "labels": ("no", "yes"), "numeric_features": NUMBERS}
    ),
    "multi_label": (
        ClassificationConfig, {**TEXT, "labels": ("x", "y", "z"), "task_type": "multi_label"}
    ),
    "regression": (ClassificationConfig, {**TEXT, "task_type": "regression"}),
    "question_answering": (QuestionAnsweringConfig, {"doc_stride": 3, "max_query_length": 4}),
    "token_classification": (
        TokenClassificationConfig, {"tags": Tags(("O", "B-X", "I-X"), "iob2", "iob2")}
    ),
    "multiple_choice": (MultipleChoiceConfig, {}),
}  # fmt: skip

TEXTS = ["a b", "c", "", "a b c d e f g h i j a b c d e f", "\ud55c a\u0301", "ab abc"]


def randomized(model, seed=1):
    """Set weights far from 0, always the same ones; return the model."""
    keras.utils.set_random_seed(seed)
    for weight in model.trainable_weights:
        weight.assign_add(tf.random.normal(weight.shape, stddev=0.3))
    return model


def task_config(task, vocab_file):
    """Return the `TaskConfig` of a task in `CONFIGS`."""
    config_class, options = CONFIGS[task]
    return config_class(TINY, vocab_file, do_lower_case=True, max_seq_length=LENGTH, **options)


@functools.cache
def model_of(task):
    """Return the model of a task, which is built once."""
    keras.utils.set_random_seed(0)
    spec, _ = exported_tasks()[task]
    return randomized(spec.make_model(task_config(task, "")))


def make_servable(task, vocab_file, serving_config):
    """Return a `Servable` of a task, always with the same weights."""
    model = model_of(task)
    config = task_config(task, vocab_file)
    spec, _ = exported_tasks()[task]
    return spec.make_servable(model, config, serving_config)


def rows_of(task, texts=TEXTS):
    """Return rows for a `Predictor` of a task."""
    if task == "question_answering":
        return [{"question": "a", "context": text} for text in texts]
    if task == "multiple_choice":
        return [{"context": text, "endings": ["a", "b c"][: 1 + i % 2]}
                for i, text in enumerate(texts)]  # fmt: skip
    if task == "classification":
        return [{"text": text, "numbers": [i, 0.5]} for i, text in enumerate(texts)]
    if task == "fill_mask":
        texts = [f"[MASK] {text}" for text in texts]
    return [{"text": text} for text in texts]


def padded_ids(servable, length=LENGTH):
    """Return inputs of the signature `ids` for two sequences of different lengths, and the mask."""
    rng = np.random.default_rng(0)
    inputs = {}
    for name, spec in servable.ids_signature.items():
        shape = [2, *(x or length for x in spec.shape[1:])]
        inputs[name] = rng.integers(0, 2, shape).astype(spec.dtype.as_numpy_dtype)
    inputs["input_ids"][..., 1] = 4  # [MASK]
    mask = inputs["input_mask"]
    mask[:] = 1
    mask[0, ..., 7:], mask[1, ..., 4:] = 0, 0
    return {name: tf.constant(value) for name, value in inputs.items()}, mask
