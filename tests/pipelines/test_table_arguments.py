"""Tables as arguments of the pipelines' `fit` and `evaluate`."""

import types

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import console
from bert_tf.pipelines.table_arguments import with_columns

DATA = {"id": [7, 8], "Text": ["a", "b"], "label": [1, 0], "score": [0.5, 2.0]}
NAMES = {"texts": [("review", "text"), ("text_b",)], "labels": ("label", "score")}


class Recorder:
    """Its methods return their arguments."""

    config = types.SimpleNamespace(labels=("no", "yes"))

    @with_columns(**NAMES)
    def fit(self, texts, labels, validation_data=None, epochs=1, **options):
        return texts, labels, validation_data, epochs, options

    @with_columns(**NAMES)
    def predict(self, texts):
        return texts


def make(kind, data):
    if kind == "mapping":
        return data
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(data)
    if kind == "datasets":
        return pytest.importorskip("datasets").Dataset.from_dict(data)
    return tf.data.Dataset.from_tensor_slices(data).batch(1)


@pytest.mark.parametrize("kind", ["mapping", "pandas", "datasets", "tf.data"])
def test_columns_become_arguments(kind, caplog, monkeypatch):
    monkeypatch.setattr(console, "_shown_once", set())
    table = make(kind, DATA)
    expected = (["a", "b"], [1, 0])
    found = Recorder().fit(table, validation_data=table, epochs=3, verbose=0)
    assert found == (*expected, expected, 3, {"verbose": 0})
    assert "columns of `texts`: Text, label; ignored: id, score" in caplog.messages
    # Explicit column names take precedence.
    assert Recorder().fit(texts=table, labels=[5, 6])[:2] == (["a", "b"], [5, 6])
    assert Recorder().predict(table) == ["a", "b"]
    assert len(caplog.messages) == len(set(caplog.messages)) == 2
    pairs = make(kind, {**DATA, "text_b": ["c", "d"]})
    assert Recorder().predict(pairs) == (["a", "b"], ["c", "d"])


def test_other_values_stay(caplog):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a"], "reply": ["b"]})  # a pair in each row
    for value in (["a"], ("a", "b"), frame, tf.data.Dataset.from_tensors(["a"])):
        assert Recorder().predict(value) is value
    with pytest.raises(TypeError, match="labels"):
        Recorder().fit(["a"])
    (message,) = caplog.messages
    assert "columns of `texts`: text, reply; all are read as texts" in message


def test_columns_of_numbers_are_not_read_as_texts():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ticket": [1], "Summary": ["a"]})
    with pytest.raises(bert_tf.UserError, match="found the columns ticket, Summary, expected rev"):
        Recorder().predict(frame)
    for other in ("ticket", "label"):
        assert Recorder().predict(pandas.DataFrame({"text": ["a"], other: [1]})) == ["a"]


def test_missing_columns_are_named():
    for arguments, message in (
        (({"x": ["a"]},), "`texts`: .* x, .*review or text"),
        (({"text": ["a"]},), "`labels`: .* label or score"),
        ((["a"], [1], {"x": ["a"]}), "`validation_data`: .* x, "),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            Recorder().fit(*arguments)


def test_names_of_labels_of_a_dataset(caplog):
    """Numbers index the dataset's names, whose order may differ from the model's."""
    datasets = pytest.importorskip("datasets")
    caplog.set_level("INFO", "bert_tf")

    def labels(names, values, feature=lambda x: x):
        features = datasets.Features(
            {"text": datasets.Value("string"), "label": feature(datasets.ClassLabel(names=names))}
        )
        data = {"text": ["a"] * len(values), "label": values}
        return Recorder().fit(datasets.Dataset.from_dict(data, features))[1]

    assert labels(["yes", "no"], [0, 1, 1]) == ["yes", "no", "no"]
    assert labels(["yes", "no"], [[0, 1], []], datasets.Sequence) == [["yes", "no"], []]
    assert "are read as" not in caplog.text
    assert labels(["neg", "pos"], [0, 1]) == [0, 1]
    assert "labels neg, pos are read as no, yes" in caplog.text
    with pytest.raises(
        bert_tf.UserError, match="labels a, b, c, expected the labels of the model: no, yes"
    ):
        labels(["a", "b", "c"], [0])


FITS = {
    "TextClassifier": ({"labels": ["x", "y"]}, {"review": ["a", "b"], "sentiment": ["x", "y"]}),
    "SentenceEncoder": (
        {"layer": -1}, {"anchor": ["a", "b"], "positive": ["c", "d"], "score": [0.0, 1.0]}
    ),
    "QuestionAnswering": (
        {"max_query_length": 4, "version_2_with_negative": True},
        {"question": ["a", "b"], "context": ["c d", "e f"],
         "answers": [{"text": ["d"], "answer_start": [2]}, {"text": [], "answer_start": []}]},
    ),
    "TokenClassification": (
        {"labels": ["O", "B-X"]}, {"tokens": [["a", "b"], ["c"]], "ner_tags": [[0, 1], [0]]},
    ),
    "MultipleChoice": (
        {}, {"startphrase": ["a", "b"], "ending0": ["c", "d"], "ending1": ["e", "f"],
             "label": [0, 1]},
    ),
    "FillMask": ({}, {"text": ["a b c d e f", "b c d e f g"]}),
}  # fmt: skip
QUICK = ("SentenceEncoder",)


@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in FITS]
)
def test_every_class_learns_from_a_dataset(name, encoder_folder):
    """The steps equal training on a mapping with the same columns."""
    datasets = pytest.importorskip("datasets")
    arguments, data = FITS[name]
    losses = []
    for table in (data, datasets.Dataset.from_dict(data)):
        keras.utils.set_random_seed(0)
        pipeline = getattr(bert_tf, name).from_preset(
            str(encoder_folder), max_seq_length=16, **arguments
        )
        pipeline.compile(run_eagerly=True)
        history = pipeline.fit(table, validation_data=table, epochs=1, batch_size=2, verbose=0)
        losses.append((history.history["loss"], history.history["val_loss"]))
    assert losses[0] == losses[1]
