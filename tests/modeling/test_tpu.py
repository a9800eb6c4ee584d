"""What a TPU needs can be seen without one: static shapes in all of a step, and no strings."""

import functools
import itertools

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from training_helpers import config

from bert_tf import optimization, tasks, training
from bert_tf.data import records

LENGTHS = {"S": 8, "P": 2, "L": 3, "F": 2, "C": 3}
TAGS = tasks.token_classification.Tags(("O", "B-X", "I-X"), "iob2", "iob2")
KINDS = {"int64": tf.int32, "float32": tf.float32}


def make_token_classification(bert_config, dtype=None, feature_based=None):
    """Make a `TokenClassificationTask` for sequences of length 8."""
    config = tasks.TokenClassificationConfig(
        bert_config, "", max_seq_length=8, tags=TAGS, feature_based=feature_based
    )
    return tasks.token_classification.TokenClassificationTask(config, dtype)


TASKS = {
    "pretraining": (tasks.PretrainingTask, (), records.PRETRAINING),
    "classification": (tasks.ClassificationTask, (3,), records.CLASSIFICATION),
    "regression": (tasks.classification.RegressionTask, (1,), records.REGRESSION),
    "multi_label": (tasks.classification.MultiLabelTask, (3,), records.MULTI_LABEL),
    "question_answering": (
        tasks.question_answering.QuestionAnsweringTask,
        (tasks.question_answering.DecodingConfig(n_best_size=3),),
        records.SQUAD_TRAINING,
    ),
    "token_classification": (make_token_classification, (), records.TAGGING),
    "feature_based": (
        functools.partial(
            make_token_classification,
            feature_based=tasks.token_classification.FeatureBasedConfig("last", 4),
        ),
        (),
        records.TAGGING,
    ),
    "choice": (tasks.multiple_choice.MultipleChoiceTask, (), records.CHOICE),
    "taught": (
        functools.partial(
            tasks.ClassificationTask,
            num_numeric_features=2,
            class_weights=(1.0, 2.0, 0.5),
            distillation=tasks.DistillationConfig(0.5, 2.0),
        ),
        (3,),
        {**records.CLASSIFICATION, **records.NUMBERS, **records.TEACHER},
    ),
}
HOW = {
    "plain": {},
    "accumulated": {"gradient_accumulation_steps": 2},
    "recomputed": {"recompute": True},
    "bfloat16": {},
    "lamb": {},
}


def unfit(graph_def):
    """The outputs in a graph and its functions that a TPU could not compile, as sentences."""
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    found = []
    for node in nodes:
        if "_output_shapes" not in node.attr:
            assert not op_def_registry.get(node.op).output_arg, node.name
        for shape in node.attr["_output_shapes"].list.shape:
            if shape.unknown_rank or any(dim.size < 0 for dim in shape.dim):
                found.append(f"{node.op} {node.name} has no static shape")
        types = [attr.type for attr in node.attr.values() if attr.WhichOneof("value") == "type"]
        if tf.string.as_datatype_enum in types:
            found.append(f"{node.op} {node.name} has strings")
    return len(nodes), found


def trace(step, schema):
    spec = {
        name: tf.TensorSpec(
            (4, *feature.shape(LENGTHS)),
            KINDS[feature.dtype],
        )
        for name, feature in schema.items()
    }
    return tf.function(step).get_concrete_function(spec).graph.as_graph_def(add_shapes=True)


@pytest.mark.parametrize(
    ("task", "how"),
    # The others are a classification but for what comes after the logits.
    [*itertools.product(list(TASKS)[:2], HOW), *itertools.product(list(TASKS)[2:], ["plain"])],
)
def test_the_step_of_a_task_is_fit(task, how):
    make, arguments, schema = TASKS[task]
    task = make(config(0.1), *arguments, dtype="mixed_bfloat16" if how == "bfloat16" else None)
    kind = optimization.OPTIMIZERS["lamb" if how == "lamb" else "bert_adam"]
    optimizer = kind(optimization.linear_warmup_decay(1e-3, 10, 2))
    optimizer.build(training.checkpointing.weights(task.model))
    step = training.step.TrainStep(task, optimizer, training.TrainConfig(**HOW[how]))
    count, found = unfit(trace(step.replica_step, schema))
    assert count > 1000, "the whole step was looked at"
    assert not found


@pytest.mark.parametrize("task", TASKS)
def test_predictions_of_a_task_are_fit(task):
    make, arguments, schema = TASKS[task]
    task = make(config(0.1), *arguments)
    count, found = unfit(
        trace(lambda b: task.predictions(task.model(b, training=False), b), schema)
    )
    assert count > 200
    assert not found


def some(schema):
    """A batch of zeros, as small as can be."""
    return {
        name: tf.zeros((2, *feature.shape(LENGTHS)), KINDS[feature.dtype])
        for name, feature in schema.items()
    }


@pytest.mark.parametrize(
    "task", ["pretraining", *(pytest.param(x, marks=pytest.mark.slow) for x in ("taught", "question_answering"))]
)
def test_xla_compiles_the_whole_step_and_the_predictions(task):
    """The compiler of a TPU, here for a processor: every operation must be one that it knows."""
    make, arguments, schema = TASKS[task]
    task = make(config(0.1), *arguments)
    optimizer = optimization.AdamWeightDecay(lambda step: 1e-3)
    optimizer.build(training.checkpointing.weights(task.model))
    step = training.TrainStep(task, optimizer, training.TrainConfig(gradient_accumulation_steps=2))
    losses = tf.function(step.replica_step, jit_compile=True)(some(schema))
    assert losses["loss"] > 0
    predict = tf.function(lambda b: task.predictions(task.model(b), b), jit_compile=True)
    assert predict(some(schema))


def test_what_is_unfit_is_seen():
    def unsteady(batch):
        return tf.boolean_mask(batch["input_ids"], batch["input_mask"] > 0)

    def wordy(batch):
        return tf.strings.as_string(batch["input_ids"])

    for step, what in ((unsteady, "has no static shape"), (wordy, "has strings")):
        nested = tf.function(step)
        assert any(what in line for line in unfit(trace(nested, records.CLASSIFICATION))[1])
