"""`fit(..., output_dir=...)` trains with the loop of the scripts and resumes."""

import json
import random
import signal

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.errors import Stopped
from bert_tf.tasks.classification.objective import ClassificationObjective
from tests.common import WORDS, tiny
from tests.pipelines.classifier_helpers import LABELS, TEXTS, make
from tests.pipelines.conftest import write_release_folder


@pytest.fixture(scope="module")
def dropout_folder(tmp_path_factory):
    """A release folder with dropout, whose masks a resumed run must repeat."""
    config = tiny(vocab_size=len(WORDS), num_hidden_layers=1, hidden_dropout_prob=0.2)
    return write_release_folder(tmp_path_factory.mktemp("dropout"), config)


def fit(folder, output_dir, callbacks=(), epochs=3, seed=0, **options):
    """Return the classifier and the history of a run of 2 steps per epoch."""
    keras.utils.set_random_seed(seed)  # of the head
    classifier = bert_tf.TextClassifier.from_preset(folder, ["neg", "pos"], max_seq_length=12)
    state = random.getstate()
    history = classifier.fit(
        TEXTS[:8], LABELS[:8], validation_data=(TEXTS, LABELS), epochs=epochs, batch_size=4,
        learning_rate=1e-2, callbacks=list(callbacks), output_dir=str(output_dir), **options,
    )  # fmt: skip
    assert random.getstate() == state
    return classifier, history


@pytest.mark.slow
def test_a_stopped_call_is_resumed(dropout_folder, tmp_path, monkeypatch):
    # An epoch after the first step is one host loop.
    monkeypatch.setattr("bert_tf.training.loop.SECONDS_PER_LOOP", 1e6)
    whole, history = fit(dropout_folder, tmp_path / "whole")
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert names >= {"train.tf_record", "eval.tf_record", "run.json", "classifier.json", "eval",
                     "model.ckpt-6.index"}  # fmt: skip
    record = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert record["command_lines"] == [None]
    scores = whole.evaluate(TEXTS, LABELS)
    logs = {name: values[-1] for name, values in history.history.items()}
    assert {f"val_{name}" for name in scores} | {"loss"} <= set(logs)
    assert {x: logs[f"val_{x}"] for x in scores} == pytest.approx(scores)
    loaded = bert_tf.TextClassifier.from_preset(tmp_path / "whole")
    assert loaded.predict(TEXTS) == whole.predict(TEXTS)

    logs_of_epochs = []
    stop = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: epoch == 1 and signal.raise_signal(signal.SIGTERM),
        on_epoch_end=lambda _, logs: logs_of_epochs.append(logs),
    )
    with pytest.raises(Stopped):
        fit(dropout_folder, tmp_path / "other", [stop])
    with monkeypatch.context() as patch, pytest.raises(TypeError):  # in the second validation
        patch.setattr(ClassificationObjective, "metrics", None)
        fit(dropout_folder, tmp_path / "other", seed=1)
    other, rest = fit(dropout_folder, tmp_path / "other", seed=1)
    assert rest.epoch == [1, 2]
    for name, values in history.history.items():
        found = [*(logs[name] for logs in logs_of_epochs), *rest.history[name]]
        expected = values if name.startswith("val_") else values[::2]
        assert found == pytest.approx(expected, rel=1e-6), name
    finished, none = fit(dropout_folder, tmp_path / "other")
    assert none.epoch == []
    for classifier in (other, finished):
        for x, y in zip(whole.model.get_weights(), classifier.model.get_weights(), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.slow
def test_callbacks_and_the_best_checkpoint(dropout_folder, tmp_path):
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=9)
    classifier, history = fit(
        dropout_folder, tmp_path / "best", [stop], epochs=9, eval_steps=2, best_metric="eval_loss",
        layer_decay=0.9, num_frozen_layers=1, gradient_accumulation_steps=2,
    )  # fmt: skip
    assert history.epoch == [0, 1]
    loss = classifier.evaluate(TEXTS, LABELS)["loss"]
    assert loss == pytest.approx(min(history.history["val_loss"]))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"steps_per_epoch": 1}, "`steps_per_epoch`"),
        ({"batch_size": 99}, "batch_size=99`"),
        ({"train_batch_size": 8}, "`train_batch_size`.* `batch_size`"),
        ({"output_dir": None, "num_train_epochs": 2}, "`num_train_epochs`.* `epochs`"),
        ({"output_dir": None, "seed": 2}, "`seed` requires `output_dir`"),
        ({"learning_rte": 1e-3}, "`learning_rte` is not an option"),
        ({"eval_steps": 1}, "`eval_steps`.*`validation_data`"),
        ({"compile": ("sgd",)}, "`compile`"),
        ({"dtype": "float64"}, "dtype=float64"),
    ],
)
def test_what_cannot_be_combined(encoder_folder, tmp_path, options, named):
    options = dict(options)
    classifier = make(encoder_folder, dtype=options.pop("dtype", None))
    if "compile" in options:
        classifier.compile(*options.pop("compile"))
    with pytest.raises(bert_tf.UserError, match=named):
        classifier.fit(TEXTS, LABELS, **{"output_dir": str(tmp_path / "run"), **options})
    assert not (tmp_path / "run").exists()
