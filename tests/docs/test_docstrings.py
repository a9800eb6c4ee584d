"""The docstring examples of the main classes and functions run on small models."""

import doctest
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from tests.common import write_vocab
from tests.docs.test_rehearsal import write_presets

pytest.importorskip("tensorflow_text")

NAMES = [
    "BertClassifier", "BertMultipleChoice", "BertPretrainer", "BertSpanLabeler",
    "BertTokenClassifier", "BertTokenizer", "FillMask", "MultipleChoice",
    pytest.param("QuestionAnswering", marks=pytest.mark.slow), "SentenceEncoder",
    pytest.param("TextClassifier", marks=pytest.mark.slow), "TokenClassification", "TokenVectors",
    "modeling.Embeddings", "modeling.MaskedLMHead", "modeling.TransformerLayer",
    "tasks.sentence_embedding.search.NearestNeighbors",
    "tasks.sentence_embedding.search.nearest_neighbors", "tokenization.add_words",
    "tokenization.vocabulary.learn", "training.make_strategy",
]  # fmt: skip


class Checker(doctest.OutputChecker):
    """Accepts any output where the docstring shows none."""

    def check_output(self, want, got, flags):
        return not want or super().check_output(want, got, flags)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the examples run, with the models that they load."""
    folder = tmp_path_factory.mktemp("docstrings")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_presets(folder / "cache", patch)
        write_vocab(folder)
        yield folder


@pytest.mark.usefixtures("folder", "eagerly")
@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    names = {"bert_tf": bert_tf, "keras": keras, "np": np, "tf": tf}
    documented = functools.reduce(getattr, name.split("."), bert_tf)
    (test,) = doctest.DocTestFinder(recurse=False).find(documented, name, globs=names)
    assert test.examples
    output = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(Checker(), optionflags=options)
    # Functions are called once, so AutoGraph would take most of the time.
    tf.autograph.experimental.do_not_convert(runner.run)(test, out=output.append)
    assert not runner.failures, "".join(output)
