"""The docstring examples of the main classes run on small models."""

import doctest

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, tasks
from bert_tf.tasks import token_classification
from tests.common import write_vocab
from tests.docs.test_rehearsal import SMALL, write_presets

pytest.importorskip("tensorflow_text")

CLASSES = [
    "BertTokenizer",
    "FillMask",
    "MultipleChoice",
    pytest.param("QuestionAnswering", marks=pytest.mark.slow),
    "SentenceEncoder",
    pytest.param("TextClassifier", marks=pytest.mark.slow),
    "TokenClassification",
]


class Checker(doctest.OutputChecker):
    """Accepts any output where the docstring shows none."""

    def check_output(self, want, got, flags):
        return not want or super().check_output(want, got, flags)


def write_tagger(folder):
    """Write a folder like `run_ner.py`, with random weights."""
    config = bert_tf.BertConfig(**SMALL)
    tags = token_classification.Tags(("O", "B-X", "I-X"), "iob2", "iob2")
    tasks.TokenClassificationConfig(config, "vocab.txt", True, 16, tags=tags).save(str(folder))
    weights = checkpoints.weights(bert_tf.BertTokenClassifier(config, 3))
    tensors = {name: variable.numpy() for name, variable in weights.items()}
    checkpoints.write(str(folder / "model.ckpt-3"), tensors)


@pytest.mark.parametrize("name", CLASSES)
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path / "cache", monkeypatch)
    write_vocab(tmp_path)
    write_tagger(tmp_path / "ner_output")
    names = {"bert_tf": bert_tf, "keras": keras, "tf": tf}
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(bert_tf, name), name, globs=names)
    assert test.examples
    output = []
    runner = doctest.DocTestRunner(
        Checker(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    # Functions are called once, so tracing and AutoGraph would take most of the time.
    tf.config.run_functions_eagerly(True)
    try:
        tf.autograph.experimental.do_not_convert(runner.run)(test, out=output.append)
    finally:
        tf.config.run_functions_eagerly(False)
    assert not runner.failures, "".join(output)
