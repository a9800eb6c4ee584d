"""Examples from small tensorflow-datasets that the tests write."""

import logging

import numpy as np
import pytest

import bert_tf
from bert_tf.data.columns import Layout, RowErrors
from bert_tf.tasks.classification.glue import find_task
from bert_tf.tasks.classification.source import TfdsSource
from tests.common import read_data, write_tfds

tfds = pytest.importorskip("tensorflow_datasets")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of prepared datasets: GLUE's mrpc, stsb and mnli, and meals."""
    of, folder = tfds.features, str(tmp_path_factory.mktemp("tfds"))
    text = of.Text()

    def glue(name, texts, label, **splits):
        features = {**dict.fromkeys(texts, text), "label": label, "idx": np.int32}
        write_tfds(folder, f"glue/{name}", features, splits, version="2.0.0")

    sentences, pair = ("sentence1", "sentence2"), ("A", "B", 1, 4)
    label = of.ClassLabel(names=["not_equivalent", "equivalent"])
    glue("mrpc", sentences, label, train=[pair, ("C", "D", 0, 5)], validation=[pair],
         test=[("T", " ", -1, 0)])  # fmt: skip
    glue("stsb", sentences, np.float32, train=[("A", "B", 3.5, 0)])
    label = of.ClassLabel(names=["entailment", "neutral", "contradiction"])
    glue("mnli", ("premise", "hypothesis"), label, train=[("A", "B", 2, 0)],
         validation_matched=[("M", "B", 0, 0)], validation_mismatched=[("MM", "B", 1, 0)],
         test_matched=[("TM", "B", -1, 0)], test_mismatched=[("TMM", "B", -1, 0)])  # fmt: skip
    moods = of.Sequence(of.ClassLabel(names=["hot", "salty"]))
    features = {"dish": text, "text": text, "mood": of.ClassLabel(names=["sad", "glad"]),
                "stars": np.int64, "taste": moods, "score": np.float32}  # fmt: skip
    good = ("soup", "good", 1, 3, [0, 1], 0.5)
    train = [good, ("stew", "bad", 0, 10, [], 2.0)]
    test = [good, ("soup", " ", 0, 10, [], np.nan)]
    write_tfds(folder, "meals", features, {"train": train, "test": test}, ("text", "mood"))
    return folder


def rows(source, split, bad=None):
    return [(x.text_a, x.text_b, x.label, x.id) for x in source.read(split, bad)]


def test_mrpc_is_the_same_as_from_files(folder):
    source = TfdsSource("glue/mrpc", folder)
    # The labels are 0 and 1, the metric is F1, and the file has the leaderboard's name.
    assert source.dataset == find_task("mrpc")
    assert rows(source, "train") == [("A", "B", "1", "4"), ("C", "D", "0", "5")]
    assert rows(source, "dev") == [("A", "B", "1", "4")]
    assert rows(source, "test") == [("T", " ", None, "0")]  # GLUE allows empty texts
    assert read_data(source, ["train", "dev", "test"]).labels == ("0", "1")
    bases = ("train", "dev", "test")
    assert [source.splits(base) for base in bases] == [["train"], ["dev"], ["test"]]


def test_other_tasks_of_glue(folder):
    source = TfdsSource("glue/stsb", folder)
    assert source.dataset.task_type == "regression"
    assert rows(source, "train") == [("A", "B", 3.5, "0")]
    data = read_data(TfdsSource("glue/mnli", folder), ["train", "dev", "test"])
    # Labels are in the release's order, which differs from tensorflow-datasets.
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert {split: (x.text_a, x.label) for split, (x,) in data.examples.items()} == {
        "train": ("A", "contradiction"),
        "dev": ("M", "entailment"),
        "dev_mismatched": ("MM", "neutral"),
        "test": ("TM", None),
        "test_mismatched": ("TMM", None),
    }


def test_a_custom_dataset(folder):
    """The supervised keys give text and label."""
    source = TfdsSource("meals", folder)
    assert source.dataset.labels == ("sad", "glad")  # as ordered in the dataset
    assert rows(source, "train") == [("good", None, "glad", "0"), ("bad", None, "sad", "1")]
    with pytest.raises(bert_tf.UserError, match=r"dev in meals, only train, test; .*`tfds_splits`"):
        source.splits("dev")
    scored = TfdsSource("meals", folder, "regression", layout=Layout(label=("stars",)))
    assert [x[2] for x in rows(scored, "train")] == [3.0, 10.0]  # whole numbers can be scores
    source = TfdsSource("meals", folder, splits={"dev": "train[50%:]", "test": "train[:1]"})
    assert source.splits("dev") == ["dev"]
    assert rows(source, "dev") == [("bad", None, "sad", "0")]
    assert rows(source, "test") == [("good", None, None, "0")]


@pytest.mark.parametrize(
    ("label", "task_type", "labels", "expected"),
    [
        ("taste", "multi_label", ("hot", "salty"), [("hot", "salty"), ()]),
        ("score", "regression", (), [0.5, 2.0]),
        ("stars", "classification", ("3", "10"), ["3", "10"]),
        ("dish", "classification", ("soup", "stew"), ["soup", "stew"]),
    ],
)
def test_features_by_name(folder, label, task_type, labels, expected):
    layout = Layout(text=("text",), label=(label,), id="stars")
    source = TfdsSource("meals", folder, layout=layout)
    assert source.dataset.task_type == task_type
    data = read_data(source, ["train"])
    assert data.labels == labels
    assert [x.label for x in data.examples["train"]] == expected
    assert [(x.text_a, x.id) for x in data.examples["train"]] == [("good", "3"), ("bad", "10")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "nosuch"}, "`tfds_name`.* nosuch"),
        ({"name": "meals", "layout": Layout(text=("x",))}, "meals: .*'x'.*`text_columns`"),
        ({"name": "meals", "layout": Layout(label=("x",))}, "meals: .*'x'.*`label_column`"),
        ({"name": "glue/mrpc", "task_type": "regression"}, "`task_type=regression`.*glue/mrpc"),
        ({"name": "meals", "splits": {"dev": "trane[:5]"}}, "`tfds_splits`: meals, trane"),
    ],
)
def test_errors_name_the_dataset_and_the_feature(folder, arguments, message):
    logging.getLogger("absl").setLevel("ERROR")
    with pytest.raises(bert_tf.UserError, match=message):
        TfdsSource(data_dir=folder, **arguments).read("dev")


def test_bad_rows(folder, caplog):
    layout, splits = Layout(label=("score",)), {"train": "test"}
    source = TfdsSource("meals", folder, layout=layout, splits=splits)
    with pytest.raises(bert_tf.UserError, match=r"meals, test, example 1: the label is missing"):
        source.read("train")
    bad = RowErrors(skip=True)
    assert [x[0] for x in rows(source, "train", bad)] == ["good"]
    assert bad.count == 1
    assert rows(TfdsSource("meals", folder), "test")[1][0] == " "
    assert "rows with an empty text: 1, the first: meals, test, example 1" in caplog.text
