"""The check of a task from its files to its exported model, and fixtures for the task tests."""

import types

import numpy as np
import pytest

from bert_tf import serving
from tests.common import QUICK_RUN, model_flags, read_results, read_table, write_model
from tests.squad_helpers import project_recording, shared_recording


def make_run(run_script, script, folder, quick=QUICK_RUN, **model):
    """Return `run(*flags)`, which runs a script in `folder`/out and returns its log.

    If the flags have --do_train, it adds the flags `quick` and a tiny model, see `write_model`.
    """
    write_model(folder, **model)

    def run(*flags, script=script):
        more = [*model_flags(folder), *quick] if "--do_train" in flags else []
        return run_script(script, f"--output_dir={folder}/out", *more, *flags)

    return run


def run_task_test(run, run_script, folder, data, train, *, results, above, rows, output):
    """Check a task from its files to the answers of its exported model.

    The run trains and evaluates. Prediction needs only its folder and the data, and the exported
    model gives the same answers.

    Args:
      run: function returned by `make_run`.
      run_script: the fixture.
      folder: a `pathlib.Path`; the run is in `out`, the exported model in `export`.
      data: flags for the data, used in every mode.
      train: more flags for the training run.
      results: the set of names in eval_results.txt.
      above: dict from some of these names to lower bounds.
      rows: the rows of the test set for a `Predictor`.
      output: the output of the exported model that is in test_results.tsv.

    Returns:
      The log of the training run, the log of the prediction, and the `Predictor`.
    """
    out, export = folder / "out", folder / "export"
    train_log = run(*data, *train, "--do_train", "--do_eval")
    found = read_results(out / "eval_results.txt")
    assert set(found) == results
    for name, value in above.items():
        assert float(found[name]) > value, name
    predict_log = run(*data, "--do_predict")
    expected = read_table(out / "test_results.tsv")
    header, *predictions = read_table(out / "test_predictions.tsv")
    assert header[:2] == ["id", "prediction"]
    assert [row[2:] or row[1:] for row in predictions] == expected

    run_script("export_model", f"--model_dir={out}", f"--export_dir={export}", "--nowarm_up")
    predictor = serving.Predictor(str(export))
    exact = np.reshape(predictor(rows, output=output), np.shape(expected))
    np.testing.assert_allclose(exact, np.float32(expected), rtol=1e-6, atol=2e-6)
    # Answers have six digits.
    np.testing.assert_allclose([np.ravel(x[output]) for x in predictor(rows)], exact, rtol=5e-6)
    return train_log, predict_log, predictor


@pytest.fixture
def experiments(monkeypatch):
    """Make runs end once their features are written; return the list of their `Run`s."""
    from bert_tf.training import fine_tuning

    experiments = []

    def run(self):
        self.check_folder()
        self.task = self.task_class(types.SimpleNamespace(), self.data.config)
        self.prepare()
        experiments.append(self)
        return {}

    monkeypatch.setattr(fine_tuning.FineTuningRun, "run", run)
    return experiments


@pytest.fixture(params=["project", "xquad"])
def recording(request, version, tmp_path):
    """The release's outputs for SQuAD 1.1 or 2.0, a `Recording` for each of two texts."""
    if request.param == "project":
        golden, manifest = map(request.getfixturevalue, ("golden", "manifest"))
        return project_recording(version, golden, manifest, tmp_path)
    shared, vocab = map(request.getfixturevalue, ("shared", "published_vocab"))
    return shared_recording(version, shared, vocab)
