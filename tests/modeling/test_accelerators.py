"""Graphs meet the requirements of accelerators, checked without one.

A TPU needs static shapes throughout a step, and no strings. A GPU needs a kernel for every
operation, and large tensors must not be in host memory.
"""

import functools
import math

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

import bert_tf
from bert_tf import checkpoints, configs, optimization, training
from bert_tf.data import records
from bert_tf.tasks.multiple_choice.task import MultipleChoiceObjective
from bert_tf.training.pretraining import PretrainingObjective
from tests.common import tiny
from tests.tasks.task_helpers import classification_task, span_task, tag_task
from tools.compilation import nodes_of, unfit

# One layer is enough, since all layers have the same operations.
CONFIG = tiny(num_hidden_layers=1)
LENGTHS = {"S": 8, "P": 2, "L": 3, "F": 2, "C": 3}
KINDS = {"int64": tf.int32, "float32": tf.float32}


def pretraining(dtype=None):
    return PretrainingObjective(CONFIG, dtype)


classification = functools.partial(classification_task, CONFIG)
numeric = functools.partial(classification, num_numeric_features=2, class_weights=(1.0, 2.0, 0.5))
CASES = {
    "pretraining": (pretraining, records.PRETRAINING),
    "classification": (classification, records.CLASSIFICATION),
    "regression": (lambda: classification("regression"), records.REGRESSION),
    "multi_label": (lambda: classification("multi_label"), records.MULTI_LABEL),
    "question_answering": (lambda: span_task(CONFIG), records.SQUAD_TRAINING),
    "token_classification": (lambda: tag_task(CONFIG), records.TOKEN_CLASSIFICATION),
    "choice": (lambda: MultipleChoiceObjective(bert_tf.BertMultipleChoice(CONFIG)), records.CHOICE),
    "numeric": (numeric, {**records.CLASSIFICATION, **records.NUMBERS}),
}
VARIANTS = {
    "plain": {},
    "accumulated": {"gradient_accumulation_steps": 2},
    "recomputed": {"recompute": True},
    "bfloat16": {},
    "lamb": {},
}


# The cases of the default suite.
QUICK = [("pretraining", "plain"), ("pretraining", "bfloat16"), ("question_answering", "plain")]


# Operations that TensorFlow runs or removes without a device kernel.
NO_KERNEL = {"Placeholder", "_Arg", "_Retval"}


def attributes(node):
    """Return the attributes of a node, including default values."""
    op_def = op_def_registry.get(node.op)
    defaults = {a.name: a.default_value for a in op_def.attr} if op_def else {}
    return {**defaults, **node.attr}


@functools.cache
def gpu_kernels(op):
    kernel_list = kernels.get_registered_kernels_for_op(op).kernel
    return [x for x in kernel_list if x.device_type in ("GPU", "DEFAULT")]


def gpu_kernel(node):
    """Return the definition of a node's GPU kernel, or None if it has none."""
    values = attributes(node)
    for kernel in gpu_kernels(node.op):
        if all(
            values[constraint.name].type in constraint.allowed_values.list.type
            for constraint in kernel.constraint
        ):
            return kernel
    return None


def size_of(shape):
    return math.prod(dim.size for dim in shape.dim)


def off_gpu(graph_def):
    """Return messages about operations of a graph that run on the host of a GPU.

    Results up to the size of the graph's largest input are cheap and not reported.
    """
    limit = max(
        size_of(node.attr["shape"].shape) for node in graph_def.node if node.op == "Placeholder"
    )
    functions = {function.signature.name for function in graph_def.library.function}
    problems = []
    for node in nodes_of(graph_def):
        op_def = op_def_registry.get(node.op)
        if node.op in NO_KERNEL or node.op in functions:
            continue
        kernel = gpu_kernel(node)
        if kernel is None:
            problems.append(f"{node.op} {node.name} has no kernel for a GPU")
            continue
        # Only results count, since an operand is the result of another node.
        shapes = node.attr["_output_shapes"].list.shape
        for argument, shape in zip(op_def.output_arg, shapes, strict=False):
            size = size_of(shape)
            if argument.name in kernel.host_memory_arg and size > limit:
                problems.append(f"{node.op} {node.name} computes {size} values on the host")
    return problems


def trace(step, schema):
    spec = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in ones(schema).items()}
    return tf.function(step).get_concrete_function(spec).graph.as_graph_def(add_shapes=True)


@pytest.mark.parametrize(
    ("case", "variant"),
    # Tasks differ only after the logits.
    [
        pytest.param(case, variant, marks=() if (case, variant) in QUICK else pytest.mark.slow)
        for case in CASES
        for variant in (VARIANTS if case in ("pretraining", "classification") else ["plain"])
    ],
)
def test_the_step_and_the_predictions_of_a_task_are_fit(case, variant):
    make, schema = CASES[case]
    objective = make(dtype="mixed_bfloat16") if variant == "bfloat16" else make()
    kind = optimization.OPTIMIZERS["lamb" if variant == "lamb" else "bert_adam"]
    optimizer = kind(optimization.LinearWarmupDecay(1e-3, 10, 2))
    optimizer.build(checkpoints.weights(objective.model))
    step = training.make_train_step(objective, optimizer, configs.TrainConfig(**VARIANTS[variant]))
    functions = [(step, 1000)]  # with the least number of nodes
    if variant == "plain":
        model = objective.model
        functions.append((lambda b: objective.predictions(model(b, training=False), b), 200))
    for function, least in functions:
        graph_def = trace(function, schema)
        assert len(nodes_of(graph_def)) > least
        assert not unfit(graph_def)
        assert not off_gpu(graph_def)


def ones(schema):
    """Return a batch of ones."""
    return {
        name: tf.ones((4, *feature.shape(LENGTHS)), KINDS[feature.dtype])
        for name, feature in schema.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", ["pretraining", "numeric", "question_answering"])
def test_xla_compiles_the_whole_step_and_the_predictions(case):
    """TPUs need XLA; its CPU compiler must support every operation too."""
    make, schema = CASES[case]
    objective = make()
    optimizer = optimization.AdamWeightDecay(1e-3)
    optimizer.build(checkpoints.weights(objective.model))
    step = training.make_train_step(
        objective, optimizer, configs.TrainConfig(gradient_accumulation_steps=2)
    )
    losses = tf.function(step, jit_compile=True)(ones(schema))
    assert losses["loss"] > 0
    predict = tf.function(lambda b: objective.predictions(objective.model(b), b), jit_compile=True)
    assert predict(ones(schema))
