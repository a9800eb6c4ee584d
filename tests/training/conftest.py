"""Fixtures for the tests of training."""

import pytest
from training_helpers import Batches

from bert_tf import training
from bert_tf.data import records


@pytest.fixture(autouse=True)
def seed():
    training.set_seed(7)


@pytest.fixture(scope="session")
def record_paths(tmp_path_factory):
    """Three files of pre-training records, of different sizes."""
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / f"{i}.tfrecord") for i in range(3)]
    with records.writing(paths, records.PRETRAINING) as write:
        for step in range(11):
            batch = Batches().make(step)
            for row in range(4):
                write({name: value[row] for name, value in batch.items()})
    return paths
