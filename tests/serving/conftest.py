"""Exported models that the tests of serving share."""

import functools
import os

import pytest

from bert_tf import configs, serving
from tests import scripts_alone
from tests.serving import serving_models, serving_stand_in


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    return serving_models.write_vocab(tmp_path_factory.mktemp("vocab"))


@pytest.fixture(scope="session")
def exported(vocab_file, tmp_path_factory):
    """Function from a task to the `Predictor` of an exported model with the buckets 5 and 9."""

    @functools.cache
    def export(task):
        options = configs.ServingConfig(sequence_buckets=(5, 9))
        servable = serving_models.make_servable(task, vocab_file, options)
        return serving.Predictor(serving.export(servable, str(tmp_path_factory.mktemp(task))))

    return export


@pytest.fixture(scope="session")
def predictor(exported):
    """The `Predictor` of a classifier with the inputs `text` and `numbers`."""
    return exported("classification")


@pytest.fixture(scope="session")
def classifier(predictor):
    """Folder of all versions of that model."""
    return os.path.dirname(predictor.path)


@pytest.fixture
def run_predict(root, monkeypatch, capsys):
    """Function that runs predict.py in this process and returns what it prints."""
    with scripts_alone.imported("bert_tf.cli.predict") as run_script:

        def run(*flags):
            run_script("bert_tf.cli.predict", *flags)
            return capsys.readouterr().out

        yield run


@pytest.fixture(scope="session")
def _stand_in(classifier):
    versions = serving_stand_in.load(classifier, f"{classifier}/batching_parameters.txt")
    with serving_stand_in.StandIn(versions, "m") as stand_in:
        yield stand_in


@pytest.fixture
def served(_stand_in):
    """A stand-in for TF Serving that serves the classifier as the model m."""
    yield _stand_in
    _stand_in.before = lambda: None
