"""`DataProcessor` classes written for the release work in scripts."""

import sys

import pytest

import bert_tf
from bert_tf import serving
from bert_tf.tasks.classification.processor import ProcessorSource
from tests.common import read_results, read_table, write_files
from tests.tasks.conftest import make_run

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

    def get_dev_examples(self, data_dir):
        return self._create_examples(self._read_tsv(os.path.join(data_dir, "dev.tsv")), "dev")

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

    def get_dev_examples(self, data_dir):
        return [self.Example("x")]

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


@pytest.fixture
def mrpc(tmp_path):
    """The flag for a folder with the MRPC files."""
    (tmp_path / "data").mkdir()
    rows = [f'{i % 2}\t1\t2\ta\r"b {"c" * i}\td e' for i in range(8)]
    text = "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n\n\r\n"
    data = write_files(tmp_path / "data", train__tsv=text, dev__tsv=text, test__tsv=text)
    return f"--data_dir={data}"


@pytest.mark.slow
def test_a_fork_s_run(run_script, module, mrpc, tmp_path):
    """The run equals the built-in task's, and the model can be used without the class."""
    (tmp_path / "task").mkdir()
    outputs = {}
    for folder, source in (
        ("", f"--processor={module}:MrpcProcessor"),
        ("task", "--task_name=mrpc"),
    ):
        run = make_run(run_script, "run_classifier", tmp_path / folder)
        run(source, mrpc, "--do_train", "--do_eval", "--do_predict", "--seed=1")
        outputs[folder] = tmp_path / folder / "out"
    own, task = outputs.values()
    for name in ("train.tf_record", "eval.tf_record", "predict.tf_record", "test_results.tsv"):
        assert (own / name).read_bytes() == (task / name).read_bytes(), name
    assert [row[0] for row in read_table(own / "test_predictions.tsv")][:2] == ["id", "test-1"]
    results = read_results(own / "eval_results.txt")
    assert results["eval_accuracy"] == read_results(task / "eval_results.txt")["eval_accuracy"]

    (tmp_path / "my_task.py").unlink()
    sys.modules.pop(module)
    make_run(run_script, "run_classifier", tmp_path)("--task_name=mrpc", mrpc, "--do_eval")
    run_script("export_model", f"--model_dir={own}", f"--export_dir={tmp_path}/export")
    answers = serving.Predictor(f"{tmp_path}/export")([{"text_a": "a b", "text_b": "d e"}])
    assert list(answers[0]["probabilities"]) == ["0", "1"]


def test_a_fork_s_imports(module, mrpc, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "run_classifier", script := object())
    (*_, last) = ProcessorSource(f"{module}:MrpcProcessor", mrpc.partition("=")[2]).read("train")
    assert (last.text_a.split()[:2], last.label, last.id) == (["a", '"b'], "1", "train-8")
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
        ("other:X", "'other'"),
        ("my_task:X", "'X'"),
        ("my_task:Failing", "KeyError: 'tokenization'"),
        ("my_task:Bad", "a, b, a in get_labels"),
        ("my_task:NoList", "found None, .* get_labels"),
        ("my_task:Wrong", "get_train_examples, example 0: .*'yes', .* 1, 0"),
        ("my_task:Wrong --nodo_train --do_eval", "get_dev_examples, example 0: the label"),
        ("my_task:Wrong --nodo_train --do_predict", r"\('x', .* InputExample"),
        ("my_task:OfNoBaseClass --do_eval", "get_dev_examples"),
        ("my_task:OfNoBaseClass --task_name=cola", "--task_name .*--processor"),
        ("my_task:OfNoBaseClass --labels=1,0", "--labels .*--processor"),
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
