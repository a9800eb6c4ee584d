"""Examples from small tensorflow-datasets that the tests write."""

import contextlib
import io
import logging
import pathlib

import numpy as np
import pytest

import bert_tf
from bert_tf.data.columns import Layout
from bert_tf.data.rows import BadRows
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.glue import find_task
from bert_tf.tasks.classification.source import make_source
from bert_tf.tasks.classification.tfds_source import TfdsSource
from tests.common import read_data

pytest.importorskip("tensorflow_datasets")


def make_meals(folder, kinds):
    """Write a dataset with supervised keys."""
    import tensorflow_datasets as tfds

    names = {"dish": "text", "text": "text", "mood": "mood", "stars": "long", "taste": "moods",
             "score": "float"}  # fmt: skip
    good = ("soup", "good", 1, 3, [0, 1], 0.5)
    bad = ("stew", "bad", 0, 10, [], 2.0)
    splits = {"train": [good, bad], "test": [good, ("soup", " ", 0, 10, [], np.nan)]}

    # The fixture may run twice in one process.
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
    """A folder of prepared datasets: GLUE's mrpc, stsb and mnli, and meals."""
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
            # A generator, because examples have sequences of different lengths.
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
    layout = Layout(text=("text", "dish"), label=(label,), id="stars")
    source = TfdsSource("meals", folder, layout=layout)
    assert source.dataset.task_type == task_type
    data = read_data(source, ["train"])
    assert data.labels == labels
    assert [x.label for x in data.examples["train"]] == expected
    texts = [(x.text_a, x.text_b, x.id) for x in data.examples["train"]]
    assert texts == [("good", "soup", "3"), ("bad", "stew", "10")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "nosuch"}, "`tfds_name`.* nosuch"),
        ({"name": "meals", "layout": Layout(text=("x",))}, "`text_columns`: .* meals, .*'x'"),
        ({"name": "meals", "layout": Layout(label=("x",))}, "`label_column`: .* meals, .*'x'"),
        ({"name": "glue/mrpc", "task_type": "regression"}, "`task_type=regression`.*glue/mrpc"),
        ({"name": "meals", "splits": {"dev": "trane[:5]"}}, "`tfds_splits`: meals, trane"),
    ],
)
def test_errors_name_the_dataset_and_the_feature(folder, arguments, message):
    logging.getLogger("absl").setLevel("ERROR")
    with pytest.raises(bert_tf.UserError, match=message):
        TfdsSource(data_dir=folder, **arguments).read("dev")


def test_bad_rows(folder):
    layout, splits = Layout(label=("score",)), {"train": "test"}
    source = TfdsSource("meals", folder, layout=layout, splits=splits)
    with pytest.raises(bert_tf.UserError, match=r"meals, test, example 1: .*score is nan"):
        source.read("train")
    bad = BadRows(skip=True)
    assert [x[0] for x in rows(source, "train", bad)] == ["good"]
    assert bad.count == 1
    source = TfdsSource("meals", folder)
    with pytest.raises(bert_tf.UserError, match=r"meals, test, example 1: text "):
        source.read("test")


def test_options(folder):
    task_config = ClassificationConfig(
        tfds_name="meals",
        tfds_data_dir=folder,
        text_columns=("dish",),
        label_column=("score",),
        tfds_splits=("train[:1]", "train[1:]"),
    )
    source = make_source(task_config)
    data = read_data(source, ["train", "dev"])
    assert source.dataset.task_type == "regression"
    examples = {split: (x.text_a, x.label) for split, (x,) in data.examples.items()}
    assert examples == {"train": ("soup", 0.5), "dev": ("stew", 2.0)}
