"""Servables of every task give the same answers from strings, from ids, and in Python."""

import functools
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

import bert_tf
from bert_tf import configs, serving
from bert_tf.modeling.layer_states import named_layers
from bert_tf.modeling.layers import Dense
from bert_tf.serving.prepared_model import QuantizedModel
from bert_tf.tasks.features.pipeline import encoder_servable
from tests.common import tiny
from tests.serving.conftest import CHECKS, HOSTILE, ServableTest, serve_rows
from tests.serving.serving_models import TASKS, make_servable, padded_ids, rows_of, task_config

# The tasks of each check in the default suite; with test_predict.py, they cover all code.
_SENTENCES = ("classification", "token_classification")
_QUICK = {
    "answers": _SENTENCES,
    "side_files": _SENTENCES,
    "skipped_padding": (*_SENTENCES, "encoder", "fill_mask", "question_answering"),
    "half_precision": ("classification",),
    "hostile_texts": ("token_classification",),
}
_HOSTILE = ("question_answering", "token_classification")


def servable_test(task, vocab_file, folder, predictor=None):
    make = functools.partial(make_servable, task, vocab_file)
    return ServableTest(task, make, functools.partial(rows_of, task), predictor, folder)


@pytest.mark.parametrize(
    ("check", "task"),
    [
        pytest.param(check, task, marks=() if task in _QUICK[check] else pytest.mark.slow)
        for check in CHECKS
        for task in (_HOSTILE if check == "hostile_texts" else TASKS)
    ],
)
def test_every_task(check, task, exported, vocab_file, tmp_path):
    """See `ServableTest`."""
    getattr(servable_test(task, vocab_file, tmp_path, lambda: exported(task)), check)()


@pytest.mark.slow
def test_a_text_of_a_megabyte(vocab_file, tmp_path):
    test = servable_test("sentence_embedding", vocab_file, tmp_path)
    test.hostile_texts([*HOSTILE, b"ab " * 350_000])


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_names_of_labels(task, vocab_file):
    servable = make_servable(task, vocab_file, configs.ServingConfig())
    names = servable.metadata["labels"]
    rows = rows_of(task)
    outputs = serve_rows(servable, rows)
    assert outputs["labels"].numpy().tolist() == [[x.encode() for x in names]] * len(rows)
    assert ("label" in outputs) == (task == "classification")
    if "label" in outputs:
        best = [names[i].encode() for i in outputs["probabilities"].numpy().argmax(-1)]
        assert outputs["label"].numpy().tolist() == best
    ids_only = make_servable(task, vocab_file, configs.ServingConfig(inputs="ids"))
    ids, _ = padded_ids(servable)
    assert "labels" in servable.serve_ids(ids)
    # LiteRT cannot convert them.
    assert set(ids_only.serve_ids(ids)) == {"logits", "probabilities"}


def test_the_chosen_ending(vocab_file):
    servable = make_servable("multiple_choice", vocab_file, configs.ServingConfig())
    endings = [["a", "b c"], ["c", "j"], ["ab abc", ""]]
    outputs = servable.serve_text(
        {"context": tf.constant(["a", "b", "c"]), "endings": tf.constant(endings)}
    )
    best = outputs["probabilities"].numpy().argmax(-1)
    assert outputs["choice"].numpy().tolist() == best.tolist()
    expected = [row[i].encode() for row, i in zip(endings, best, strict=True)]
    assert outputs["ending"].numpy().tolist() == expected


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, marks=() if task == "token_classification" else pytest.mark.slow)
        for task in TASKS
    ],
)
def test_a_text_graph_has_two_operations_of_tensorflow_text(task, exported):
    """TF Serving has no other operations of TensorFlow Text."""
    path = exported(task).path
    graph = loader_impl.parse_saved_model(path).meta_graphs[0].graph_def
    used = {node.op for node in graph.node}
    used |= {node.op for function in graph.library.function for node in function.node_def}
    of_text = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    known = {op for op in used if hasattr(tf.raw_ops, op)} | of_text
    assert used & of_text and not [op for op in used if "PyFunc" in op]
    # TensorFlow would replace it by an operation that GPUs lack.
    assert "FusedBatchNormV3" not in used
    assert {op for op in used - known if not op.startswith("_")} <= {
        "Placeholder", "StatefulPartitionedCall", "PartitionedCall", "NoOp"
    }  # fmt: skip


@pytest.fixture(scope="module")
def quantized(vocab_file, tmp_path_factory):
    """A function from a weight type to (bytes of the variables, outputs for some ids)."""
    keras.utils.set_random_seed(0)
    model = bert_tf.BertModel(tiny(hidden_size=64, intermediate_size=256))
    config = task_config("encoder", vocab_file)
    ids = tf.constant([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
    inputs = {"input_ids": ids, "input_mask": tf.sign(ids), "segment_ids": tf.zeros_like(ids)}

    def export(weights):
        serving_config = configs.ServingConfig(inputs="ids", weights=weights, warm_up=False)
        servable = encoder_servable(model, config, serving_config)
        folder = serving.export(servable, str(tmp_path_factory.mktemp(weights)))
        size = os.path.getsize(f"{folder}/variables/variables.data-00000-of-00001")
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        return size, serve(**inputs)["sequence_output"].numpy()

    size, outputs = export("float32")
    # Each weight is stored once, plus the names.
    assert size < 4 * model.count_params() + 100_000
    return lambda weights: (*export(weights), size, outputs)


@pytest.mark.parametrize(
    ("weights", "share", "tolerance"),
    [pytest.param("bfloat16", 0.55, 0.02, marks=pytest.mark.slow), ("int8", 0.35, 0.1)],
)
def test_smaller_weights(weights, share, tolerance, quantized):
    size, outputs, full_size, expected = quantized(weights)
    assert size < share * full_size
    assert 1e-4 < np.abs(outputs - expected).max() < tolerance


@pytest.mark.parametrize(
    ("serving_config", "message"),
    [
        (configs.ServingConfig(sequence_buckets=(13,)), r"`sequence_buckets`: .*13.*\(12\)"),
        (configs.ServingConfig(weights="float32", dtype="bfloat16"), "`weights=float32`.*`dtype="),
    ],
)
def test_invalid_options(serving_config, message, vocab_file):
    with pytest.raises(bert_tf.UserError, match=message):
        make_servable("sentence_embedding", vocab_file, serving_config)


@pytest.mark.parametrize("weight_type", ["int8", "bfloat16"])
def test_frozen_weights_and_those_with_lora_are_rounded(weight_type):
    model = bert_tf.BertModel(tiny(hidden_size=64, intermediate_size=128, vocab_size=100))
    model.get_layer("layer_0").trainable = False
    dense = [x for _, x in named_layers(model.get_layer("layer_1")) if isinstance(x, Dense)]
    dense[0].enable_lora(2)
    model.embeddings.trainable = False
    inputs = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]], "segment_ids": [[0, 0, 1]]}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    quantized = QuantizedModel(model, weight_type)
    sizes = [
        x.dtype for pairs in quantized.weights for x, _ in pairs
        if np.prod(x.shape) >= 4096 and len(x.shape) == 2
    ]  # fmt: skip
    assert set(sizes) == {tf.as_dtype(weight_type)}
    expected = model(inputs)["pooled_output"]
    difference = np.abs(quantized(inputs)["pooled_output"] - expected).max()
    assert 0 < difference < 0.02
