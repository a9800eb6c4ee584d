"""Labels and pairs in forms that could be misread."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.pipelines.arguments import check_pairs
from bert_tf.tasks.classification.labels import LabelEncoder
from tests.pipelines.classifier_helpers import TEXTS, Frame, make


@pytest.mark.parametrize("labels", [["neg", "pos"], ["0", "1"]])
def test_numbers_as_labels(labels):
    """Lists and datasets can have indices as labels, or label names that are numbers."""
    encoder = LabelEncoder("classification", labels)
    for values in ([1, 0], [1.0, 0.0], [True, False], np.float32([[1], [0]]), np.eye(2)[[1, 0]]):
        assert encoder.encode(values, "labels").tolist() == [1, 0]
        spec = tf.TensorSpec((None, *np.shape(values)[1:]), tf.constant(values).dtype)
        encoder.check_spec(spec, "texts")
        assert encoder.encode_tensor(tf.constant(values), "texts").numpy().tolist() == [1, 0]
    for values in ([0.5], [2.0], [-1], [[0.3, 0.7]], [[1.0, 1.0]], [[0, 0]]):
        with pytest.raises(bert_tf.UserError, match="`labels`: item 0 is"):
            encoder.encode(values, "labels")
        with pytest.raises(tf.errors.InvalidArgumentError, match="a label that is not one of"):
            encoder.encode_tensor(tf.constant(values), "texts")


def test_scores_and_weights_of_the_shape_b_1():
    encoder = LabelEncoder("regression", ())
    for values in ([[0.5], [2]], np.array([[0.5], [2.0]]), tf.constant([[0.5], [2.0]])):
        assert encoder.encode(values, "labels").tolist() == [0.5, 2.0]
    with pytest.raises(bert_tf.UserError, match=r"item 0 .* expected a number"):
        encoder.encode([[1, 2]], "labels")


@pytest.mark.parametrize("task_type", ["classification", "multi_label"])
def test_columns_of_a_frame_are_matched_with_the_labels(task_type):
    encoder = LabelEncoder(task_type, ["x", "y", "z"])
    x, y, z = np.eye(3, dtype=int).tolist()
    expected = encoder.encode(np.eye(3), "labels").tolist()
    # If the names differ, the given order is used.
    for frame in (Frame(z=z, x=x, y=y), Frame(a=x, b=y, c=z)):
        assert encoder.encode(frame, "labels").tolist() == expected
    with pytest.raises(
        bert_tf.UserError,
        match="found the columns x, y, expected one for each of the labels x, y, z",
    ):
        encoder.encode(Frame(x=[1], y=[0]), "labels")


def test_two_columns_of_texts_are_pairs():
    expected = [("a", "c"), ("b", "d"), ("e", "f")]
    first, second = zip(*expected, strict=True)
    for texts in (
        (first, second), (list(first), list(second)), (np.array(first), np.array(second)),
        expected, [list(pair) for pair in expected], tuple(expected), Frame(a=first, b=second),
    ):  # fmt: skip
        assert check_pairs(texts, "texts") == expected
    tensors = check_pairs((tf.constant(first), tf.constant(second)), "texts")
    assert tensors == [(a.encode(), b.encode()) for a, b in expected]
    for texts, message in (
        ((("a", "b"), ("c", "d")), "ambiguous"), ((["a", "b"], ["c"]), "2 and 1 items"),
        ({"a"}, "a set"), ({"a": 1}.keys(), "dict_keys"),
        (Frame(x=["a"], y=["b"], z=["c"]), "item 0"), (["a", 3], "item 1 is 3"),
        ("a b", "single str"),
    ):  # fmt: skip
        with pytest.raises(bert_tf.UserError, match=f"`texts.*{message}"):
            check_pairs(texts, "texts")


def test_accuracy_by_name_is_that_of_the_task(encoder_folder):
    """The metric gets logits, which Keras would compare with 0.5 for several labels."""
    classifier = make(encoder_folder, labels=["x", "y"], task_type="multi_label")
    classifier.model.layers[-1].output_bias.assign([0.3, 0.3])
    rows = [[int(p > 0.5) for p in answer["probabilities"].values()]
            for answer in classifier.predict(TEXTS)]  # fmt: skip
    classifier.compile("sgd", metrics=["accuracy", "mae"], run_eagerly=True)
    results = classifier.evaluate(TEXTS, np.array(rows), verbose=0)
    assert results["accuracy"] == 1.0 and "mae" in str(results)
