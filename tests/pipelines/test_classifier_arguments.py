"""Arguments of `TextClassifier`: valid and invalid texts, labels and weights."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification.examples import NumericFeature
from bert_tf.tasks.classification.labels import LabelEncoder
from tests.pipelines.classifier_helpers import LABELS, TEXTS, Frame, captured_fit, make

pytest.importorskip("tensorflow_text")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": None}, "`labels` must be given"),
        ({"labels": "ab"}, "`labels`: .* single str"),
        ({"labels": ["a"]}, "`labels`: found a, expected at least two"),
        ({"labels": ["a", "a"]}, "`labels`: a label occurs twice"),
        ({"task_type": "regression"}, "`labels` cannot be combined with `task_type=regression`"),
        ({"task_type": "tagging"}, "`task_type=tagging`: expected one of classification"),
        ({"max_seq_length": 33}, "`max_seq_length=33`: expected at most"),
        ({"preset": "uncased"}, "`preset`: uncased is neither a published model"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a b", ["pos"]), "`texts`: found a single str, expected a list of texts"),
        ((["a", 3], ["pos", "neg"]), "`texts`: .*item 1 is 3"),
        (([("a", "b", "c")], ["pos"]), "`texts`: .*item 0"),
        (([], []), "`texts` is empty"),
        ((["a"],), "`labels` must be given"),
        ((["a", "b"], ["pos"]), "`texts` and `labels`: found 2 and 1 items"),
        ((["a", "b"], "ab"), "`labels`: .*single str"),
        (
            (["a", "b"], ["pos", "bad"]),
            "`labels`: item 1 is 'bad', expected one of the labels neg, pos; found the labels "
            r"\['bad', 'pos'\], to pass as `labels` to `from_preset`",
        ),
        ((["a", "b"], ["pos", 2]), "`labels`: item 1 is 2"),
        ((["a"], ["pos"], (["a"],)), "`validation_data`: expected"),
        ((["a"], ["pos"], (tf.data.Dataset.range(1), ["a"])), "`validation_data`: expected"),
        ((["a"], ["pos"], (["a"], ["x"])), "`validation_data`: item 0 is 'x'"),
        ((["a"], ["pos"], None, 0.5), "`validation_split=0.5`"),
        ((DATASET,), r"`texts`: found single texts, expected batches; call `batch"),
        ((DATASET.batch(2), ["pos"]), "`labels` cannot be combined with a dataset"),
        ((DATASET.batch(2).map(lambda x, y: x),), "`texts`: expected a dataset of"),
        (
            (DATASET.batch(2).map(lambda x, y: (tf.strings.length(x), y)),),
            "expected strings or pairs",
        ),
        ((DATASET.batch(2).map(lambda x, y: (x, 0.5)),), "`texts`: found labels with"),
        ((UNKNOWN_COLUMNS,), r"`texts`: found labels with the shape \(None, None\)"),
        ((DATASET.batch(2).repeat(),), "the number of batches .*`steps_per_epoch`"),
    ],
)
def test_wrong_data(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(*arguments, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rate": float("nan")}, "`learning_rate=nan`: expected a finite number"),
        ({"learning_rate": -1}, "`learning_rate=-1`: expected a finite number of at least 0"),
        ({"learning_rate": "1e-3"}, "`learning_rate='1e-3'`: expected a finite number"),
        ({"batch_size": 0}, "`batch_size=0`: expected an integer between 1 and 1048576"),
        ({"batch_size": 1.5}, "`batch_size=1.5`: expected an integer"),
        ({"epochs": 0}, "`epochs=0`: expected an integer of at least 1"),
        ({"epochs": True}, "`epochs=True`: expected an integer"),
        (
            {"validation_split": float("nan")},
            "`validation_split=nan`: expected a number between 0 and 1",
        ),
        ({"shuffle": "no"}, "`shuffle='no'`: expected true or false"),
        ({"steps_per_epoch": -1}, "`steps_per_epoch=-1`: expected an integer of at least 1"),
    ],
)
def test_wrong_arguments_of_fit(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=f"^{message}"):
        make(encoder_folder).fit(TEXTS, LABELS, verbose=0, **arguments)


def test_wrong_batch_sizes_of_evaluate_and_predict(encoder_folder):
    classifier = make(encoder_folder)
    for run in (lambda: classifier.predict(TEXTS, 0), lambda: classifier.evaluate(["a"], [0], -1)):
        with pytest.raises(bert_tf.UserError, match=r"^`batch_size="):
            run()


def test_weights_of_a_dataset_with_a_column_each(encoder_folder):
    """Weights (B, 1) and labels (B, 1) give weights (B,) instead of (B, B)."""
    labels, weights = tf.constant([["pos"], ["neg"]]), tf.constant([[2.0], [3.0]])
    dataset = tf.data.Dataset.from_tensor_slices((["a", "b"], labels, weights)).batch(2)
    for options, expected in (({}, [2.0, 3.0]), ({"class_weight": {"pos": 5.0}}, [10.0, 3.0])):
        ((_, targets, found),), _ = captured_fit(make(encoder_folder), dataset, **options)
        assert targets.numpy().tolist() == [1, 0] and found.numpy().tolist() == expected
    wide = dataset.map(lambda x, y, w: (x, y, tf.tile(w, [1, 2])))
    with pytest.raises(bert_tf.UserError, match=r"`texts`: found sample weights .* \(None, 2\)"):
        make(encoder_folder).fit(wide)


def test_a_tuple_of_one_text_is_no_pair(encoder_folder):
    classifier = make(encoder_folder)
    dataset = tf.data.Dataset.from_tensor_slices(((["a", "b"],), ["pos", "neg"])).batch(2)
    ((batch, *_),), _ = captured_fit(classifier, dataset)
    np.testing.assert_array_equal(
        batch["input_ids"][:, :3], classifier.tokenizer(["a", "b"])["input_ids"]
    )
    assert classifier.config.num_texts == 1


def test_labels_of_a_dataset_are_not_ignored(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match="`labels` cannot be combined with a dataset"):
        classifier.evaluate(DATASET.batch(2), ["pos", "neg"])


@pytest.mark.parametrize("is_stand_in", [True, False])
def test_data_frames(encoder_folder, is_stand_in):
    frame, classifier = Frame, make(encoder_folder)
    if not is_stand_in:
        pandas = pytest.importorskip("pandas")
        frame = lambda **columns: pandas.DataFrame(columns)  # noqa: E731
    one, two = frame(x=["a", "b"]), frame(x=["a", "b"], y=["c", "d"])
    assert classifier.predict(one) == classifier.predict(["a", "b"])
    assert classifier.predict(two) == classifier.predict([("a", "c"), ("b", "d")])
    ((_, targets),), _ = captured_fit(classifier, one, frame(label=["pos", "neg"]), epochs=1)
    assert sorted(targets.numpy()) == [0, 1] and classifier.config.num_texts == 1
    with pytest.raises(bert_tf.UserError, match=r"`texts`: item 0 is array.*expected"):
        classifier.predict(frame(x=["a"], y=["b"], z=["c"]))


def test_two_lists_are_pairs_and_keys_are_not_texts(encoder_folder):
    classifier = make(encoder_folder)
    expected = classifier.predict([("a", "c"), ("b", "d")])
    assert classifier.predict((["a", "b"], ["c", "d"])) == expected
    assert classifier.predict([["a", "c"], ["b", "d"]]) == expected
    assert classifier.predict(tuple(np.array(["a", "b"]))) == classifier.predict(["a", "b"])
    with pytest.raises(
        bert_tf.UserError, match=r"`texts\[0\]` and `texts\[1\]`: found 2 and 1 items"
    ):
        classifier.predict((["a", "b"], ["c"]))
    for keyed in ({"a"}, {"a": 1}.keys()):
        with pytest.raises(bert_tf.UserError, match=r"`texts`: found a.* expected a list of texts"):
            classifier.predict(keyed)
    with pytest.raises(
        bert_tf.UserError, match=r"`texts`: found the columns a.*, expected text or "
    ):
        classifier.predict({"a": 1})


def test_buckets_that_would_be_ignored(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match="`bucket_by_length` cannot be combined with a da"):
        classifier.fit(DATASET.batch(2), bucket_by_length=True)
    with pytest.raises(bert_tf.UserError, match="`bucket_by_length` requires `shuffle`"):
        classifier.fit(["a"], ["pos"], bucket_by_length=True, shuffle=False)


def test_unknown_label_in_a_dataset(encoder_folder):
    classifier = make(encoder_folder)
    classifier.compile("sgd", run_eagerly=True)
    dataset = DATASET.map(lambda x, y: (x, y + "x")).batch(2)
    with pytest.raises(bert_tf.UserError, match=r"`texts`: the dataset has a label .*neg, pos$"):
        classifier.fit(dataset, verbose=0)


def test_wrong_weights(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match=r"`class_weight`: 'x' has .* 1.0, expected one of"):
        classifier.fit(["a"], ["pos"], class_weight={"x": 1.0})
    with pytest.raises(bert_tf.UserError, match="`texts` and `sample_weight`"):
        classifier.fit(["a"], ["pos"], sample_weight=[1.0, 2.0])
    classifier.config = dataclasses.replace(classifier.config, task_type="multi_label")
    with pytest.raises(bert_tf.UserError, match=r"`class_weight`.*`task_type=multi_label`"):
        classifier.fit(["a"], [["pos"]], class_weight={"x": 1.0})


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
        ({"long_documents": "windows"}, "`preset`: .* reads long texts in windows"),
        ({"numeric_features": (NumericFeature("age", 1.0, 2.0),)}, "`preset`: .* the numbers age"),
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
    classifier = make(encoder_folder)
    ids = np.array([1, 0] * 6)
    results = [
        classifier.evaluate(x=texts, y=labels, verbose=0, return_dict=True)["loss"]
        for texts, labels in (
            (TEXTS, LABELS), (tf.constant(TEXTS), tf.constant(ids)),
            (pd.Series(TEXTS), ids[:, None]),
            (pd.DataFrame({"text": TEXTS}), pd.DataFrame({"label": LABELS})), (Batches(), None),
            (tf.data.Dataset.from_tensor_slices((TEXTS, np.eye(2)[ids])).batch(6), None),
        )
    ]  # fmt: skip
    results.append(classifier.evaluate(TEXTS, LABELS, verbose=0, return_dict=False)[0])
    np.testing.assert_allclose(results, results[0], rtol=1e-5)
    expected = classifier.predict(TEXTS)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(5)
    for texts in (
        np.array(TEXTS), tf.constant(TEXTS), pd.DataFrame({"text": TEXTS}), pd.Series(TEXTS),
        Batches(), dataset, dataset.map(lambda x, _: x),
    ):  # fmt: skip
        assert classifier.predict(x=texts, verbose=0) == expected
    assert classifier.predict(TEXTS[1]) == expected[1]
    pairs = classifier.predict([("a", "b"), ("c", "d")])
    columns = tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"]))
    columns = columns.map(lambda a, b: ((a, b), 0)).batch(2)
    for texts in ((["a", "c"], ["b", "d"]), pd.DataFrame([["a", "b"], ["c", "d"]]), columns):
        assert classifier.predict(texts) == pairs
    history = classifier.fit(x=Batches(), validation_data=Batches(), epochs=2, verbose=0)
    assert len(history.history["val_loss"]) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 1]] * 12, "one-hot row of 2 numbers"),
        ([[0, 1, 0]] * 12, "expected a label or a one-hot row of 2 numbers"),
        ([0.5] * 12, "expected one of the labels .*; scores require `task_type=regression`"),
        ([2.0] * 12, r"expected one of the labels .*; found the labels \[2\], to pass"),
        ([None] * 12, "expected one of the labels"),
        ([float("nan")] * 12, "expected one of the labels"),
    ],
)
def test_wrong_forms_of_labels(encoder_folder, labels, message):
    with pytest.raises(bert_tf.UserError, match=f"`labels`: item 0 is .*{message}"):
        make(encoder_folder).evaluate(TEXTS, labels)


def test_balanced_weights_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.utils")
    labels = np.array(["x", "y", "y", "z", "y", "x", "y"])
    encoder = LabelEncoder("classification", ["w", "x", "y", "z"])
    weights = encoder.label_weights("balanced", encoder.encode(labels, "labels"))
    expected = sklearn.compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    np.testing.assert_allclose(weights, [1, *expected], rtol=1e-6)
    with pytest.raises(bert_tf.UserError, match="`class_weight=balanced` requires lists"):
        encoder.label_weights("balanced", None)


def test_losses_are_of_logits(encoder_folder):
    losses = []
    for loss in (None, "sparse_categorical_crossentropy", "categorical_crossentropy",
                 keras.losses.SparseCategoricalCrossentropy(from_logits=True)):  # fmt: skip
        classifier = make(encoder_folder)
        classifier.compile("sgd", loss, metrics=["accuracy"])
        losses.append(classifier.evaluate(TEXTS, LABELS, verbose=0)["loss"])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
    for loss in (keras.losses.SparseCategoricalCrossentropy(), "binary_crossentropy"):
        with pytest.raises(bert_tf.UserError, match=r"from_logits=True|`loss=binary_crossentropy`"):
            classifier.compile("sgd", loss)


def test_number_of_classes(encoder_folder):
    assert make(encoder_folder, None, num_classes=3).config.labels == ("0", "1", "2")
    with pytest.raises(bert_tf.UserError, match="`labels` cannot be combined with `num_classes`"):
        make(encoder_folder, num_classes=2)


@pytest.mark.parametrize("texts", [["a b c d", "a b c", ""], [("a", "b c"), ("a", ""), ("b", "c")]])
def test_truncated_texts_are_counted(encoder_folder, caplog, texts):
    captured_fit(make(encoder_folder, max_seq_length=5), texts, [0, 1, 0])
    (message,) = [x for x in caplog.messages if "truncated" in x]
    assert "`texts`: 1 of 3 texts (33.3%) have more than 5 tokens" in message
    assert "the longest has 6; a larger `max_seq_length` (at most 32)" in message


def test_white_space_around_labels_is_ignored(encoder_folder):
    """As in files (`test_labels_and_names_of_any_form`)."""
    encoder = LabelEncoder("classification", ["spam", "ham"])
    assert encoder.encode(["ham ", b" spam"], "labels").tolist() == [1, 0]
    tensor = encoder.encode_tensor(tf.constant(["ham ", "spam"]), "labels")
    assert tensor.numpy().tolist() == [1, 0]
    with pytest.raises(bert_tf.UserError, match="`labels`: a label occurs twice in ham, spam, ham"):
        bert_tf.TextClassifier.from_preset(encoder_folder, labels=["ham", "spam", "ham "])
