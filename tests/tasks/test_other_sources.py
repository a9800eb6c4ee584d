"""Examples from tensorflow-datasets, and from `DataProcessor` classes written for the release."""

import logging
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf.data.columns import Layout, RowErrors
from bert_tf.tasks.classification.glue import find_dataset
from bert_tf.tasks.classification.processor import ProcessorSource
from bert_tf.tasks.classification.source import TfdsSource
from tests.common import read_data, read_examples, write_files, write_tfds
from tests.tasks.conftest import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of prepared datasets: GLUE's mrpc and mnli, and meals."""
    of = pytest.importorskip("tensorflow_datasets").features
    folder = str(tmp_path_factory.mktemp("tfds"))
    text = of.Text()

    def glue(name, texts, label, **splits):
        features = {**dict.fromkeys(texts, text), "label": label, "idx": np.int32}
        write_tfds(folder, f"glue/{name}", features, splits, version="2.0.0")

    sentences, pair = ("sentence1", "sentence2"), ("A", "B", 1, 4)
    label = of.ClassLabel(names=["not_equivalent", "equivalent"])
    glue("mrpc", sentences, label, train=[pair, ("C", "D", 0, 5)], validation=[pair],
         test=[("T", " ", -1, 0)])  # fmt: skip
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
    assert source.dataset == find_dataset("mrpc")
    assert rows(source, "train") == [("A", "B", "1", "4"), ("C", "D", "0", "5")]
    assert rows(source, "dev") == [("A", "B", "1", "4")]
    assert rows(source, "test") == [("T", " ", None, "0")]  # GLUE allows empty texts
    assert read_data(source, ["train", "dev", "test"]).labels == ("0", "1")


def test_mnli_is_the_same_as_from_files(folder):
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


# `DataProcessor` classes written for the release.


# The first class is in the manner of the release's forks.
MODULE = """
# coding=utf-8
from __future__ import absolute_import, division, print_function
import os
import run_classifier
import tokenization
from run_classifier import DataProcessor, InputExample
from tokenization import *

class MrpcProcessor(DataProcessor):
    def get_train_examples(self, data_dir):
        return self._create_examples(self._read_tsv(os.path.join(data_dir, "train.tsv")), "train")

    def get_test_examples(self, data_dir):
        return self._create_examples(self._read_tsv(os.path.join(data_dir, "test.tsv")), "test")

    def get_labels(self):
        return ["0", "1"]

    def _create_examples(self, lines, set_type):
        examples = []
        for (i, line) in enumerate(lines):
            if i == 0:
                continue
            text_a = tokenization.convert_to_unicode(line[3])
            text_b = convert_to_unicode(line[4])
            label = "0" if set_type == "test" else tokenization.convert_to_unicode(line[0])
            example = run_classifier.InputExample if i % 2 else InputExample
            examples.append(example(guid="%s-%s" % (set_type, i), text_a=text_a, text_b=text_b,
                                    label=label))
        return examples

class OfNoBaseClass:
    class Example:
        def __init__(self, text_a, label=None):
            self.guid, self.text_a, self.text_b, self.label = None, text_a, "", label

    def get_labels(self):
        return (1, b"0")

    def get_train_examples(self, data_dir):
        yield self.Example("a b", 0)
        yield self.Example(b"b \\xc3\\xa9", "1")

    def get_test_examples(self, data_dir):
        return [self.Example("c"), self.Example("")]

class Bad(OfNoBaseClass):
    def get_labels(self):
        return ["a", "b", "a"]

class Wrong(OfNoBaseClass):
    def get_train_examples(self, data_dir):
        return [self.Example("x", "yes")]

    def get_test_examples(self, data_dir):
        return [("x", "0")]

class NoList(OfNoBaseClass):
    def get_labels(self):
        pass

class Failing:
    def __init__(self):
        {}["tokenization"]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of the module, which is in the current folder."""
    other = "import tensorflow.contrib"  # of the fork, which is not imported
    write_files(tmp_path, my_task__py=MODULE, run_classifier__py=other, tokenization__py=other)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield "my_task"
    sys.modules.pop("my_task", None)


def test_a_fork_s_class(module, monkeypatch, tmp_path):
    """The examples equal the built-in task's, except for their ids."""
    monkeypatch.setitem(sys.modules, "run_classifier", script := object())
    rows = [f'{i % 2}\t1\t2\ta\r"b {"c" * i}\td e' for i in range(8)]
    text = "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n\n\r\n"
    data = write_files(tmp_path, train__tsv=text, test__tsv=text)
    own = ProcessorSource(f"{module}:MrpcProcessor", data)
    assert own.dataset.labels == find_dataset("mrpc").labels
    for split in ("train", "test"):
        found, expected = own.read(split), read_examples(find_dataset("mrpc"), data, split)
        assert [x.id for x in found] == [f"{split}-{i}" for i in range(1, 9)]
        assert [(x.text_a.split(), x.text_b, x.label) for x in found] == [
            (x.text_a.split(), x.text_b, x.label or "0") for x in expected
        ]
    assert sys.modules["run_classifier"] is script and "tokenization" not in sys.modules
    # A fork's own functions in `tokenization`.
    labels = "own(convert_to_unicode(b'0'))"
    write_files(
        tmp_path,
        tokenization__py="def own(x): return [x, '1']\ndef convert_to_unicode(x): return 'no'",
        other_task__py="from tokenization import convert_to_unicode, own\n"
        f"class A:\n    def get_labels(self): return {labels}",
    )
    assert ProcessorSource("other_task:A").dataset.labels == ("0", "1")


def test_a_class_of_the_user(module):
    source = ProcessorSource(f"{module}:OfNoBaseClass")
    assert source.dataset.labels == ("1", "0")
    first, second = source.read("train")
    assert (first.text_a, first.text_b, first.label, first.id) == ("a b", None, "0", "0")
    assert (second.text_a, second.label, second.id) == ("b é", "1", "1")
    assert [(x.text_a, x.label) for x in source.read("test")] == [("c", None), ("", None)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("my_task", "expected MODULE:CLASS"),
        ("my_task:Failing", "KeyError: 'tokenization'"),
        ("my_task:Bad", "a, b, a in get_labels"),
        ("my_task:NoList", "found None, .* get_labels"),
        ("my_task:Wrong", "get_train_examples, example 0: .*'yes', .* 1, 0"),
        ("my_task:Wrong --nodo_train --do_predict", r"\('x', .* InputExample"),
        ("my_task:OfNoBaseClass --do_eval", "get_dev_examples"),
        ("my_task:OfNoBaseClass --task_name=cola", "--task_name .*--processor"),
        ("my_task:MrpcProcessor --data_dir=none", r"none/train\.tsv"),
    ],
)
def test_errors(run_script, module, tmp_path, flags, message):
    run = make_run(run_script, "run_classifier", tmp_path)
    with pytest.raises(bert_tf.UserError, match=message):
        run("--do_train", *f"--processor={flags}".split())


def test_cells_of_a_file(tmp_path):
    """Cells are read as by `csv.reader` in the release's processors."""
    read_tsv = bert_tf.DataProcessor._read_tsv
    for text, rows in (
        ('a\t"b\tc"\r\n\n\n"d\te\n\n', [["a", '"b', 'c"'], [], [], ['"d', "e"], []]),
        ("a\tb\rc\r\n\n\r\n", [["a", "b c"]]),
        ("a\tb\rc\td\r", [["a", "b"], ["c", "d"]]),
    ):
        write_files(tmp_path, a__tsv=text)
        assert read_tsv(f"{tmp_path}/a.tsv") == rows
    write_files(tmp_path, b__tsv='a\t"b\tc\nd"\t' + "e" * 200_000)
    assert read_tsv(f"{tmp_path}/b.tsv", quotechar='"') == [["a", "b\tc\nd", "e" * 200_000]]
