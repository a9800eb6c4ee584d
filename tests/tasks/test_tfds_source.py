"""Examples out of tensorflow-datasets, from small data sets made on the spot."""

import contextlib
import importlib
import io
import logging
import pathlib

import numpy as np
import pytest
from absl.testing import flagsaver
from common import read_data

import bert_tf
from bert_tf import tasks

pytest.importorskip("tensorflow_datasets")


def make_meals(folder, kinds):
    """A data set by a builder of its own, which says what it is supervised by."""
    import tensorflow_datasets as tfds

    names = {"dish": "text", "text": "text", "mood": "mood", "stars": "long", "taste": "moods",
             "score": "float"}  # fmt: skip
    good = ("soup", "good", 1, 3, [0, 1], 0.5)
    bad = ("stew", "bad", 0, 10, [], 2.0)
    splits = {"train": [good, bad], "test": [good, ("soup", " ", 0, 10, [], np.nan)]}

    # The fixture may be made twice in one process.
    with tfds.core.registered.skip_registration():

        class Meals(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")
            pkg_dir_path = pathlib.Path(folder)

            def _info(self):
                features = tfds.features.FeaturesDict({name: kinds[x] for name, x in names.items()})
                return tfds.core.DatasetInfo(
                    builder=self,
                    features=features,
                    supervised_keys=("text", "mood"),
                    disable_shuffling=True,
                )

            def _split_generators(self, dl_manager):
                return {split: self._generate_examples(rows) for split, rows in splits.items()}

            def _generate_examples(self, rows):
                for number, row in enumerate(rows):
                    yield number, dict(zip(names, row, strict=True))

    Meals(data_dir=folder).download_and_prepare()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data sets as tensorflow-datasets keeps them: mrpc, stsb and mnli of glue, and meals."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    folder = str(tmp_path_factory.mktemp("tfds"))
    kinds = {
        "text": tfds.features.Text(),
        "mrpc": tfds.features.ClassLabel(names=["not_equivalent", "equivalent"]),
        "nli": tfds.features.ClassLabel(names=["entailment", "neutral", "contradiction"]),
        "mood": tfds.features.ClassLabel(names=["sad", "glad"]),
        "moods": tfds.features.Sequence(tfds.features.ClassLabel(names=["hot", "salty"])),
        "float": np.float32,
        "int": np.int32,
        "long": np.int64,
    }

    def make(name, features, splits, version, config):
        def dataset(rows):
            # From generators: a sequence has another length in each example.
            values = {key: kinds[kind] for key, kind in features.items()}
            spec = tfds.features.FeaturesDict(values).get_tensor_spec()
            names = list(features)
            return tf.data.Dataset.from_generator(
                lambda: (dict(zip(names, row, strict=True)) for row in rows),
                output_signature=spec,
            )

        tfds.dataset_builders.TfDataBuilder(
            name=name,
            config=config,
            version=version,
            data_dir=folder,
            features=tfds.features.FeaturesDict({k: kinds[v] for k, v in features.items()}),
            split_datasets={split: dataset(rows) for split, rows in splits.items()},
        ).download_and_prepare()

    pair = {"sentence1": "text", "sentence2": "text", "label": "mrpc", "idx": "int"}
    rows = [("A", "B", 1, 4), ("C", "D", 0, 5)]
    test = [("T", " ", -1, 0)]
    with contextlib.redirect_stderr(io.StringIO()):
        splits = {"train": rows, "validation": rows[:1], "test": test}
        make("glue", pair, splits, "2.0.0", "mrpc")
        splits = {"train": [("A", "B", 3.5, 0)]}
        make("glue", {**pair, "label": "float"}, splits, "2.0.0", "stsb")
        nli = {"premise": "text", "hypothesis": "text", "label": "nli", "idx": "int"}
        splits = {
            "train": [("A", "B", 2, 0)],
            "validation_matched": [("M", "B", 0, 0)],
            "validation_mismatched": [("MM", "B", 1, 0)],
            "test_matched": [("TM", "B", -1, 0)],
            "test_mismatched": [("TMM", "B", -1, 0)],
        }
        make("glue", nli, splits, "2.0.0", "mnli")
        make_meals(folder, kinds)
    return folder


def rows(source, split, bad=None):
    return [(x.text_a, x.text_b, x.label, x.id) for x in source.read(split, bad)]


def test_mrpc_is_that_of_the_files(folder):
    source = tasks.classification.TfdsSource("glue/mrpc", folder)
    assert source.task == tasks.classification.find_task(
        "mrpc"
    )  # labels 0 and 1, F1, the leaderboard's name
    assert rows(source, "train") == [("A", "B", "1", "4"), ("C", "D", "0", "5")]
    assert rows(source, "dev") == [("A", "B", "1", "4")]
    assert rows(source, "test") == [("T", " ", None, "0")]  # GLUE may have empty texts
    data = read_data(source, ["train", "dev", "test"])
    assert data.labels == ("0", "1")
    assert [source.splits(part) for part in ("train", "dev", "test")] == [
        ["train"],
        ["dev"],
        ["test"],
    ]


def test_other_tasks_of_glue(folder):
    source = tasks.classification.TfdsSource("glue/stsb", folder)
    assert source.task.task_type == "regression"
    assert rows(source, "train") == [("A", "B", 3.5, "0")]
    source = tasks.classification.TfdsSource("glue/mnli", folder)
    data = read_data(source, ["train", "dev", "test"])
    # The labels have the release's order, not that of tensorflow-datasets.
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert {split: (x.text_a, x.label) for split, (x,) in data.examples.items()} == {
        "train": ("A", "contradiction"),
        "dev": ("M", "entailment"),
        "dev_mismatched": ("MM", "neutral"),
        "test": ("TM", None),
        "test_mismatched": ("TMM", None),
    }


def test_another_data_set(folder):
    """Its text and label are those that it says to be supervised by."""
    source = tasks.classification.TfdsSource("meals", folder)
    assert source.task.labels == ("sad", "glad")  # the data set's order
    assert rows(source, "train") == [("good", None, "glad", "0"), ("bad", None, "sad", "1")]
    with pytest.raises(bert_tf.UserError, match="meals has no split for dev, only train, test; "):
        source.splits("dev")
    splits = {"dev": "train[50%:]", "test": "train[:1]"}
    source = tasks.classification.TfdsSource("meals", folder, splits=splits)
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
    layout = tasks.classification.Layout(text=("text", "dish"), label=(label,), id="stars")
    source = tasks.classification.TfdsSource("meals", folder, layout=layout)
    assert source.task.task_type == task_type
    data = read_data(source, ["train"])
    assert data.labels == labels
    assert [x.label for x in data.examples["train"]] == expected
    assert [(x.text_a, x.text_b, x.id) for x in data.examples["train"]] == [
        ("good", "soup", "3"),
        ("bad", "stew", "10"),
    ]


def test_whole_numbers_may_be_scores(folder):
    layout = tasks.classification.Layout(label=("stars",))
    source = tasks.classification.TfdsSource("meals", folder, "regression", layout=layout)
    assert [x[2] for x in rows(source, "train")] == [3.0, 10.0]


def test_mistakes(folder, monkeypatch):
    logging.getLogger("absl").setLevel("ERROR")
    cases = [
        ({"name": "nosuch"}, "--tfds_name: there is no nosuch"),
        (
            {"name": "meals", "layout": tasks.classification.Layout(text=("x",))},
            "--text_columns: meals has no",
        ),
        (
            {"name": "meals", "layout": tasks.classification.Layout(label=("x",))},
            "--label_column: meals has no",
        ),
        ({"name": "glue/mrpc", "task_type": "regression"}, "but glue/mrpc is a classification"),
    ]
    for arguments, message in cases:
        with pytest.raises(bert_tf.UserError, match=message):
            tasks.classification.TfdsSource(data_dir=folder, **arguments)
    source = tasks.classification.TfdsSource("meals", folder, splits={"dev": "trane[:5]"})
    with pytest.raises(bert_tf.UserError, match="--tfds_splits: meals, trane"):
        source.read("dev")


def test_bad_rows(folder):
    layout = tasks.classification.Layout(label=("score",))
    splits = {"train": "test"}
    source = tasks.classification.TfdsSource("meals", folder, layout=layout, splits=splits)
    with pytest.raises(bert_tf.UserError, match="meals, test, example 1: the score nan is no"):
        source.read("train")
    bad = tasks.tsv.BadRows(skip=True)
    assert [x[0] for x in rows(source, "train", bad)] == ["good"]
    assert bad.count == 1
    source = tasks.classification.TfdsSource("meals", folder)
    with pytest.raises(bert_tf.UserError, match="meals, test, example 1: text is empty"):
        source.read("test")


def test_a_data_set_that_cannot_be_fetched(folder, monkeypatch):
    import tensorflow_datasets as tfds

    def no_network(self, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", no_network)
    logging.getLogger("absl").setLevel("ERROR")
    with pytest.raises(bert_tf.UserError, match=r"imdb_reviews cannot be prepared .no network."):
        tasks.classification.TfdsSource("imdb_reviews", folder)


def test_by_flags(folder, root, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    script = importlib.import_module("run_classifier")
    flags = [
        "--output_dir=x", "--tfds_name=meals", f"--tfds_data_dir={folder}", "--text_columns=dish",
        "--label_column=score", "--tfds_splits=train[:1],train[1:]",
    ]  # fmt: skip
    with flagsaver.flagsaver():
        # Scripts that other tests have imported need flags of their own.
        needed = ["--model_dir=x", "--export_dir=x"]
        script.FLAGS(["run_classifier", *needed, *flags], known_only=True)
        data = read_data(bert_tf.cli.classification.make_source(None), ["train", "dev"])
    assert data.task.task_type == "regression"
    found = {split: (x.text_a, x.label) for split, (x,) in data.examples.items()}
    assert found == {"train": ("soup", 0.5), "dev": ("stew", 2.0)}
