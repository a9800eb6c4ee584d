"""Exported models for the serving tests."""

import functools

import numpy as np
import pytest

from bert_tf import configs, serving
from tests.common import write_vocab
from tests.serving import serving_models

BUCKETS = (5, 9)


def assert_alike(one, other):
    """Compare two answers; one may have padding at the end."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_alike(one[name], other[name])
    elif isinstance(one, list):
        size = min(len(one), len(other))
        # Padding of token vectors is not 0.
        has_vectors = size and isinstance(one[0], list) and isinstance(one[0][0], float)
        for padding in (one[size:], other[size:]):
            values = np.array(padding).ravel().tolist()
            assert not [x for x in values if x not in (0, "", -1)] or has_vectors
        for x, y in zip(one, other, strict=False):
            assert_alike(x, y)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=2e-5)
    else:
        assert one == other


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    return str(write_vocab(tmp_path_factory.mktemp("vocab")))


@pytest.fixture(scope="session")
def exported(vocab_file, tmp_path_factory):
    """A function from a task to the `Predictor` of an export with `BUCKETS`."""

    @functools.cache
    def export(task):
        serving_config = configs.ServingConfig(sequence_buckets=BUCKETS)
        servable = serving_models.make_servable(task, vocab_file, serving_config)
        return serving.Predictor(serving.export(servable, str(tmp_path_factory.mktemp(task))))

    return export
