"""Fixtures for the tests of tasks."""

import pytest

from tests.squad_helpers import project_recording, shared_recording


@pytest.fixture
def experiments(monkeypatch):
    """Make runs end when their features are written; return the list of their `Run`s."""
    from bert_tf.training import fine_tuning

    experiments = []
    monkeypatch.setattr(fine_tuning.Run, "run_seeds", lambda self: experiments.append(self))
    return experiments


@pytest.fixture(params=["project", "xquad"])
def recording(request, version, tmp_path):
    """The `Recording` of the release's outputs for SQuAD 1.1 or 2.0, from each of two texts."""
    if request.param == "project":
        golden, manifest = map(request.getfixturevalue, ("golden", "manifest"))
        return project_recording(version, golden, manifest, tmp_path)
    shared, vocab = map(request.getfixturevalue, ("shared", "published_vocab"))
    return shared_recording(version, shared, vocab)
