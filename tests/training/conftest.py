"""Fixtures for the training tests."""

import keras
import numpy as np
import pytest

from bert_tf.data import records
from tests.data.record_helpers import write_examples
from tests.training.training_helpers import Batches, run


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(7)


@pytest.fixture(scope="session")
def record_paths(tmp_path_factory):
    """Three files of pre-training records with different sizes."""
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / f"{i}.tfrecord") for i in range(3)]
    batches = map(Batches().make, range(11))
    rows = [{name: x[i] for name, x in batch.items()} for batch in batches for i in range(4)]
    write_examples(paths, records.PRETRAINING, rows)
    return paths


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    """The folder of a 20-step run on one device, with reports at the first and the last step."""
    folder = tmp_path_factory.mktemp("plain")
    keras.utils.set_random_seed(7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_tf.training.loop.SECONDS_PER_REPORT", np.inf)
        run(folder, 20, save=3)
    return folder
