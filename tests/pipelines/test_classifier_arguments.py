"""Arguments of `TextClassifier`: valid and invalid texts, labels and weights."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification.examples import NumericFeature
from bert_tf.tasks.classification.labels import LabelEncoder
from tests.pipelines.classifier_helpers import LABELS, TEXTS, captured_fit, make, make_quick

pytest.importorskip("tensorflow_text")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": None}, "`labels`"),
        ({"labels": "ab"}, "`labels`: .* single str"),
        ({"labels": ["a"]}, "`labels`: found a"),
        ({"labels": ["a", " a"]}, "`labels`: .* a, a"),
        ({"task_type": "regression"}, "`labels`.*`task_type=regression`"),
        ({"num_classes": 2}, "`labels`.*`num_classes`"),
        ({"max_seq_length": 33}, "`max_seq_length=33`"),
        ({"preset": "uncased"}, "`preset`: uncased"),
    ],
)
def test_wrong_presets(encoder_folder, arguments, message):
    options = {"preset": encoder_folder, "labels": ["a", "b"], **arguments}
    with pytest.raises(bert_tf.UserError, match=message):
        bert_tf.TextClassifier.from_preset(**options)


DATASET = tf.data.Dataset.from_tensor_slices((["a", "b"], ["pos", "neg"]))
# A dataset whose labels have the shape (None, None).
UNKNOWN_COLUMNS = tf.data.Dataset.from_generator(
    lambda: [(["a"], [["pos", "neg"]])],
    output_signature=(tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.string)),
)


LENGTHS = DATASET.batch(2).map(lambda x, y: (tf.strings.length(x), y))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "`texts` is empty"),
        ((["a"],), {}, "`labels`"),
        ((["a", "b"], ["pos"]), {}, "`texts` and `labels`: .* 2 and 1"),
        ((["a", "b"], "ab"), {}, "`labels`: .*single str"),
        ((["a", "b"], ["pos", "bad"]), {}, r"`labels`: item 1 is 'bad', .*\['bad', 'pos'\]"),
        ((["a"], [None]), {}, "`labels`: item 0 is None"),
        ((["a"], [float("nan")]), {}, "`labels`: item 0 is nan"),
        ((["a"], [0.5]), {}, "`labels`: item 0 is 0.5, .*`task_type=regression`"),
        ((["a"], ["pos"], (["a"],)), {}, "`validation_data`"),
        ((["a"], ["pos"], (["a"], ["x"])), {}, "`validation_data`: item 0 is 'x'"),
        ((["a"], ["pos"], None, 0.5), {}, "`validation_split=0.5`"),
        ((DATASET,), {}, "`texts`: .*`batch"),
        ((DATASET.batch(2), ["pos"]), {}, "`labels`"),
        ((DATASET.batch(2).map(lambda x, y: x),), {}, "`texts`"),
        ((LENGTHS,), {}, "expected strings or pairs"),
        ((DATASET.batch(2).map(lambda x, y: (x, 0.5)),), {}, "`texts`: found labels"),
        ((UNKNOWN_COLUMNS,), {}, r"`texts`: found labels .*\(None, None\)"),
        ((DATASET.batch(2).repeat(),), {}, "`steps_per_epoch`"),
        ((DATASET.batch(2),), {"bucket_by_length": True}, "`bucket_by_length`"),
        ((["a"], ["pos"]), {"bucket_by_length": True, "shuffle": False}, "`shuffle`"),
        ((["a"], ["pos"]), {"class_weight": {"x": 1.0}}, "`class_weight`: 'x'"),
        ((["a"], ["pos"]), {"sample_weight": [1.0, 2.0]}, "`sample_weight`"),
        ((["a"], ["pos"]), {"learning_rate": float("nan")}, "`learning_rate=nan`"),
        ((["a"], ["pos"]), {"batch_size": 1.5}, "`batch_size=1.5`"),
        ((["a"], ["pos"]), {"steps_per_epoch": -1}, "`steps_per_epoch=-1`"),
    ],
)
def test_wrong_data(encoder_folder, arguments, options, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(*arguments, verbose=0, **options)


def test_weights_of_a_dataset_with_a_column_each(encoder_folder):
    """Weights (B, 1) and labels (B, 1) give weights (B,) instead of (B, B)."""
    labels, weights = tf.constant([["pos"], ["neg"]]), tf.constant([[2.0], [3.0]])
    dataset = tf.data.Dataset.from_tensor_slices((["a", "b"], labels, weights)).batch(2)
    for options, expected in (({}, [2.0, 3.0]), ({"class_weight": {"pos": 5.0}}, [10.0, 3.0])):
        ((_, targets, found),), _ = captured_fit(make_quick(encoder_folder), dataset, **options)
        assert targets.numpy().tolist() == [1, 0] and found.numpy().tolist() == expected
    wide = dataset.map(lambda x, y, w: (x, y, tf.tile(w, [1, 2])))
    with pytest.raises(bert_tf.UserError, match=r"`texts`: found sample weights .* \(None, 2\)"):
        make_quick(encoder_folder).fit(wide)


def test_a_tuple_of_one_text_is_no_pair(encoder_folder):
    classifier = make(encoder_folder)
    dataset = tf.data.Dataset.from_tensor_slices(((["a", "b"],), ["pos", "neg"])).batch(2)
    ((batch, *_),), _ = captured_fit(classifier, dataset)
    np.testing.assert_array_equal(
        batch["input_ids"][:, :3], classifier.tokenizer(["a", "b"])["input_ids"]
    )
    assert classifier.config.num_texts == 1


def test_unknown_label_in_a_dataset(encoder_folder):
    classifier = make_quick(encoder_folder)
    dataset = DATASET.map(lambda x, y: (x, y + "x")).batch(2)
    with pytest.raises(bert_tf.UserError, match=r"`texts`: the dataset has a label .*neg, pos$"):
        classifier.fit(dataset, verbose=0)


def test_labels_have_no_class_weights(encoder_folder):
    classifier = make(encoder_folder, labels=["x", "y"], task_type="multi_label")
    with pytest.raises(bert_tf.UserError, match=r"`class_weight`.*`task_type=multi_label`"):
        classifier.fit(["a"], [["x"]], class_weight={"x": 1.0})


def test_labels_that_are_numbers():
    encoder = LabelEncoder("classification", ["1", "2", "3"])
    assert encoder.encode([1, "2", np.int64(3)], "labels").tolist() == [0, 1, 2]
    assert encoder.encode_tensor(tf.constant([1, 3]), "labels").numpy().tolist() == [0, 2]
    with pytest.raises(bert_tf.UserError, match="item 0 is 0"):
        encoder.encode([0], "labels")
    encoder = LabelEncoder("multi_label", ["0", "1"])
    assert encoder.encode([[1], [0, 1], np.array([0, 1])], "labels").tolist() == [
        [0, 1], [1, 1], [0, 1],
    ]  # fmt: skip
    encoder = LabelEncoder("multi_label", ["x", "y"])
    assert encoder.encode([["y"], [0, 1], []], "labels").tolist() == [[0, 1], [0, 1], [0, 0]]
    for row in ([0, 2], [0, 1, 1], "x", ["z"]):
        with pytest.raises(bert_tf.UserError, match="`labels`: item 0"):
            encoder.encode([row], "labels")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"long_documents": "windows"}, "`preset`: .* windows of long texts"),
        ({"numeric_features": (NumericFeature("age", 1.0, 2.0),)}, "`preset`: .* numeric columns"),
    ],
)
def test_models_with_other_inputs_are_refused(encoder_folder, tmp_path, changes, match):
    classifier = make(encoder_folder)
    classifier.config = dataclasses.replace(classifier.config, **changes)
    classifier.save_to_preset(tmp_path / "saved")
    with pytest.raises(bert_tf.UserError, match=match):
        bert_tf.TextClassifier.from_preset(tmp_path / "saved")


class Batches(keras.utils.PyDataset):
    """Two batches of texts and label indices."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        part = slice(6 * index, 6 * index + 6)
        return np.array(TEXTS[part]), np.array([1, 0] * 3)


@pytest.mark.usefixtures("eagerly")
def test_forms_of_the_arguments(encoder_folder):
    """Every form of the same texts and labels gives the same loss and answers."""
    pd = pytest.importorskip("pandas")
    classifier = make_quick(encoder_folder)
    ids = np.array([1, 0] * 6)
    examples = list(map(bert_tf.InputExample, ids, TEXTS, [None] * 12, LABELS))
    results = [
        classifier.evaluate(x=texts, y=labels, verbose=0, return_dict=True)["loss"]
        for texts, labels in (
            (TEXTS, LABELS), (tf.constant(TEXTS), tf.constant(ids)),
            (pd.Series(TEXTS), ids[:, None]),
            (pd.DataFrame({"text": TEXTS}), pd.DataFrame({"label": LABELS})), (Batches(), None),
            (examples, None),
            (tf.data.Dataset.from_tensor_slices((TEXTS, np.eye(2)[ids])).batch(6), None),
        )
    ]  # fmt: skip
    results.append(classifier.evaluate(TEXTS, LABELS, verbose=0, return_dict=False)[0])
    np.testing.assert_allclose(results, results[0], rtol=1e-5)
    expected = classifier.predict(TEXTS)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(5)
    for texts in (
        np.array(TEXTS), tf.constant(TEXTS), pd.DataFrame({"text": TEXTS}), pd.Series(TEXTS),
        Batches(), dataset, dataset.map(lambda x, _: x), examples,
    ):  # fmt: skip
        assert classifier.predict(x=texts, verbose=0) == expected
    assert classifier.predict(TEXTS[1]) == expected[1]
    pairs = classifier.predict([("a", "b"), ("c", "d")])
    columns = tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"]))
    columns = columns.map(lambda a, b: ((a, b), 0)).batch(2)
    for texts in (
        (["a", "c"], ["b", "d"]), pd.DataFrame([["a", "b"], ["c", "d"]]), columns,
        [bert_tf.InputExample(0, "a", "b"), bert_tf.InputExample(1, "c", "d")],
    ):  # fmt: skip
        assert classifier.predict(texts) == pairs
    for data in (Batches(), examples):
        history = classifier.fit(x=data, validation_data=data, epochs=1, verbose=0)
        assert len(history.history["val_loss"]) == 1


def test_balanced_weights_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.utils")
    labels = np.array(["x", "y", "y", "z", "y", "x", "y"])
    encoder = LabelEncoder("classification", ["w", "x", "y", "z"])
    weights = encoder.label_weights("balanced", encoder.encode(labels, "labels"))
    expected = sklearn.compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    np.testing.assert_allclose(weights, [1, *expected], rtol=1e-6)
    with pytest.raises(bert_tf.UserError, match="`class_weight"):
        encoder.label_weights("balanced", None)


def test_losses_are_of_logits(encoder_folder):
    losses = []
    for loss in (None, "sparse_categorical_crossentropy", "categorical_crossentropy",
                 keras.losses.SparseCategoricalCrossentropy(from_logits=True)):  # fmt: skip
        classifier = make_quick(encoder_folder)
        classifier.compile("sgd", loss, metrics=["accuracy"], run_eagerly=True)
        losses.append(classifier.evaluate(TEXTS, LABELS, verbose=0)["loss"])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
    for loss in (keras.losses.SparseCategoricalCrossentropy(), "binary_crossentropy"):
        with pytest.raises(bert_tf.UserError, match=r"from_logits=True|`loss=binary_crossentropy`"):
            classifier.compile("sgd", loss)


def test_number_of_classes(encoder_folder):
    assert make(encoder_folder, None, num_classes=3).config.labels == ("0", "1", "2")


@pytest.mark.parametrize("texts", [["a b c d", "a b c", ""], [("a", "b c"), ("a", ""), ("b", "c")]])
def test_truncated_texts_are_counted(encoder_folder, caplog, texts):
    captured_fit(make(encoder_folder, max_seq_length=5), texts, [0, 1, 0])
    (message,) = [x for x in caplog.messages if "truncated" in x]
    assert "`texts`: 1 of 3 texts" in message and "the longest has 6" in message


def test_white_space_around_labels_is_ignored():
    """As in files (`test_labels_and_names_of_any_form`)."""
    encoder = LabelEncoder("classification", ["spam", "ham"])
    assert encoder.encode(["ham ", b" spam"], "labels").tolist() == [1, 0]
    tensor = encoder.encode_tensor(tf.constant(["ham ", "spam"]), "labels")
    assert tensor.numpy().tolist() == [1, 0]
