"""Fixtures for the tests of tasks."""

import pytest


@pytest.fixture
def experiments(monkeypatch):
    """Make runs end when their features are written; return the list of their `Experiment`s."""
    from bert_tf.training import fine_tuning

    experiments = []
    monkeypatch.setattr(fine_tuning.Experiment, "run_seeds", lambda self: experiments.append(self))
    return experiments
