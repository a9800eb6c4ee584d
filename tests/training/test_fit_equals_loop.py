"""Keras' `fit` with an objective makes the steps of one device on any devices and batches.

As a script, it fits on the current backend: `python test_fit_equals_loop.py FOLDER CASE...`.
"""

import importlib.util
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.modeling import BertMultipleChoice, Dropout
from bert_tf.modeling.layer_states import named_layers
from bert_tf.tasks.multiple_choice.task import MultipleChoiceObjective
from bert_tf.tasks.sentence_embedding.objective import SentenceEmbeddingObjective
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig, SentenceEmbeddingData
from bert_tf.tasks.sentence_embedding.task import SentenceEncoder
from bert_tf.training.pretraining import PretrainingObjective
from tests.common import features, run_python
from tests.tasks.task_helpers import classification_task, span_task, tag_task
from tests.training.training_helpers import config, mirrored

S, RATE, COUNTS = 8, 0.03, (8, 7, 5)


def sentence_task(loss, num_texts, has_scores):
    task_config = SentenceEmbeddingConfig(config())
    model = SentenceEncoder.make_model(task_config)
    options = SentenceEmbeddingData(loss=loss, temperature=1.0)
    data_format = num_texts, has_scores
    return SentenceEmbeddingObjective(model, options, task_config.width, data_format, has_scores)


# Functions that make the objective, and the names of the labels with their upper bounds and shapes.
CASES = {
    "classification": (lambda: classification_task(config()), {"label_ids": (3, ())}),
    "class_weights": (
        lambda: classification_task(config(), class_weights=(0.5, 1, 3)),
        {"label_ids": (3, ()), "sample_weight": (None, ()), "is_real_example": (2, ())},
    ),
    "soft_labels": (lambda: classification_task(config()), {"label_values": (None, (3,))}),
    "regression": (
        lambda: classification_task(config(), "regression"), {"label_value": (None, ())}
    ),
    "multi_label": (
        lambda: classification_task(config(), "multi_label"), {"label_values": (2, (3,))}
    ),
    "choice": (
        lambda: MultipleChoiceObjective(BertMultipleChoice(config())),
        {"label_ids": (2, ())},
    ),
    "span": (lambda: span_task(config()), {"start_positions": (S, ()), "end_positions": (S, ())}),
    "tags": (
        lambda: tag_task(config()),
        {"tag_ids": (3, (S,)), "word_starts": (2, (S,)), "sample_weight": (None, ())},
    ),
    "contrastive": (lambda: sentence_task("contrastive", 2, False),
                    {"label_value": (None, ()), "text_ids": (9, (2,))}),
    "cosent": (lambda: sentence_task("cosent", 2, True),
               {"label_value": (None, ()), "text_ids": (9, (2,))}),
    "pretraining": (
        lambda: PretrainingObjective(config()),
        {"masked_lm_ids": (50, (2,)), "masked_lm_weights": (2, (2,)),
         "next_sentence_labels": (2, (1,))},
    ),
    "masked_lm": (
        lambda: PretrainingObjective(config(), has_pairs=False),
        {"masked_lm_ids": (50, (2,)), "masked_lm_weights": (2, (2,))},
    ),
}  # fmt: skip


def make_objective(case, start=None):
    keras.utils.set_random_seed(3)
    objective = CASES[case][0]()
    if start:
        objective.model.load_weights(start)
    for _, layer in named_layers(objective.model):
        if isinstance(layer, Dropout):
            layer.rate = 0.0
    return objective


def batches(case, count):
    inputs = features(2 * count, S)
    positions = inputs.pop("masked_lm_positions")[:count]
    num_texts = 2 if case in ("choice", "contrastive", "cosent") else 1
    batch = {name: x[: num_texts * count] for name, x in inputs.items()}
    if num_texts > 1:
        batch = {name: x.reshape(count, num_texts, S) for name, x in batch.items()}
    rng = np.random.default_rng(count)
    for name, (limit, shape) in CASES[case][1].items():
        values = rng.uniform(0, limit or 1, (count, *shape))
        is_float = limit is None or name in ("masked_lm_weights", "label_values")
        batch[name] = (values if limit is None else np.floor(values)).astype(
            "float32" if is_float else "int32"
        )
    if case == "soft_labels":
        batch["label_values"] /= batch["label_values"].sum(1, keepdims=True)
    if "word_starts" in batch:
        batch["word_starts"] *= batch["input_mask"]
    if "is_real_example" in batch:
        batch["is_real_example"][::4] = 1
    if "masked_lm_ids" in batch:
        batch["masked_lm_positions"] = positions
    return tf.data.Dataset.from_tensor_slices(batch).batch(4)


def fit(case, start=None, **options):
    """Return the weights, losses and evaluations after an epoch of each number of examples."""
    objective, results = make_objective(case, start), {}
    model, objective.model.objective = objective.model, objective
    model.compile(keras.optimizers.SGD(RATE), **options)
    for count in COUNTS:
        history = model.fit(batches(case, count), shuffle=False, verbose=0).history
        evaluation = model.evaluate(batches(case, count), return_dict=True, verbose=0)
        assert evaluation.keys() == history.keys() and {*objective.fit_metric_names} < {*history}
        results |= {f"{name}_{count}": values[0] for name, values in history.items()}
        results |= {f"val_{name}_{count}": value for name, value in evaluation.items()}
        results |= {f"{x.path}_{count}": np.array(x) for x in model.trainable_variables}
    return results


def by_hand(case):
    """Return the weights and the mean losses of gradient descent on whole batches."""
    objective, results = make_objective(case), {}
    variables = {x.path: x.value for x in objective.model.trainable_variables}
    for count in COUNTS:
        losses = []
        for batch in batches(case, count):
            with tf.GradientTape() as tape:
                outputs = objective.model(batch, training=True)
                loss = sum(objective.losses(outputs, batch, objective.denominators(batch)).values())
            losses.append(float(loss))
            for name, gradient in tape.gradient(loss, variables).items():
                if gradient is not None:
                    variables[name].assign_sub(RATE * tf.convert_to_tensor(gradient))
        results[f"loss_{count}"] = np.mean(losses)
        results |= {f"{name}_{count}": x.numpy() for name, x in variables.items()}
    return results


def assert_close(found, expected, atol=1e-6):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=atol, rtol=0, err_msg=name)


# Only "contrastive" exchanges vectors between replicas. The others have little of their own.
@pytest.mark.parametrize(
    "case", [pytest.param(x, marks=pytest.mark.slow if x != "contrastive" else ()) for x in CASES]
)
def test_fit_equals_steps_by_hand_on_any_number_of_replicas(case):
    expected = by_hand(case)
    one = fit(case)
    assert_close(one, expected)
    with mirrored(2).scope():
        two = fit(case)
    assert_close(two, one)
    start = make_objective(case).model.trainable_variables
    assert max(np.abs(one[f"{x.path}_5"] - x).max() for x in start) > 1e-3


CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
SOFT = keras.losses.CategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize("loss", [SOFT, pytest.param(None, marks=pytest.mark.slow)])
def test_what_compile_got_is_exact_on_three_replicas(loss):
    """No batch divides over them, so the shares differ."""
    options = {"loss": loss, "metrics": ["accuracy", "mae"], "weighted_metrics": ["mse"]}
    one = fit("soft_labels", **options)
    with mirrored(3).scope():
        assert_close(fit("soft_labels", **options), one)


@pytest.mark.parametrize(
    ("case", "loss"),
    [
        ("soft_labels", SOFT),
        ("class_weights", CROSS_ENTROPY),
        ("tags", CROSS_ENTROPY),
        ("masked_lm", {"masked_lm_logits": CROSS_ENTROPY, "next_sentence_logits": CROSS_ENTROPY}),
    ],
)
def test_a_loss_of_keras_gets_targets_and_weights(case, loss):
    objective = make_objective(case)
    objective.model.objective = objective
    objective.model.compile(keras.optimizers.SGD(RATE), loss)
    for count in COUNTS:
        objective.model.fit(batches(case, count), shuffle=False, verbose=0)
    expected = by_hand(case)
    for variable in objective.model.trainable_variables:
        assert_close({"": variable.numpy()}, {"": expected[f"{variable.path}_5"]})


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_fit_equals_that_on_jax(tmp_path):
    for case in CASES:
        make_objective(case).model.save_weights(tmp_path / f"{case}.weights.h5")
    environment = {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(sys.path)}
    run_python(__file__, tmp_path, *CASES, **environment)
    for case in CASES:
        assert_close(np.load(tmp_path / f"{case}.npz"), fit(case), atol=1e-5)


if __name__ == "__main__":
    folder, *cases = sys.argv[1:]
    for case in cases:
        np.savez(f"{folder}/{case}.npz", **fit(case, f"{folder}/{case}.weights.h5"))
