"""The task of docs/architecture.md: one module and one registry entry are enough."""

import importlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import configs, tasks, training
from bert_tf.io import files
from tests.common import TINY, WORDS, write_model
from tests.docs import pages


@pytest.fixture
def topics(root, tmp_path, monkeypatch):
    """The module of the page, registered for this test only."""
    monkeypatch.setattr(tasks, "TASKS", dict(tasks.TASKS))
    monkeypatch.setattr(files, "TASK_FILES", dict(files.TASK_FILES))
    (block,) = (x for x in pages.blocks(root) if "class TopicsTask" in x.text)
    (tmp_path / "topics.py").write_text(block.text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "topics", raising=False)
    return importlib.import_module("topics")


@pytest.fixture
def config(topics, tmp_path):
    """Return a function that makes a `FineTuneConfig` on two topics."""
    write_model(tmp_path, TINY, WORDS)
    for split in ("train", "dev"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "vowels.txt").write_text("a e\ne a\ni a\na i\n" * 2)
        (tmp_path / split / "consonants.txt").write_text("b c\nc d\nf g\ng h\n" * 2)

    def make(**values):
        return configs.FineTuneConfig(
            str(tmp_path / "out"),
            topics.TopicsOptions(max_seq_length=8, data_dir=str(tmp_path), smoothing=0.05),
            configs.ModelConfig(
                bert_config_file=f"{tmp_path}/config.json", vocab_file=f"{tmp_path}/vocab.txt"
            ),
            configs.TrainConfig(
                train_batch_size=4, num_train_epochs=10, eval_steps=20, best_metric="eval_accuracy"
            ),
            configs.OptimizerConfig(learning_rate=3e-3),
            configs.DeviceConfig(distribution_strategy="one_device"),
            **values,
        )

    return make


def test_it_trains_and_resumes(topics, config, tmp_path, caplog):
    spec = tasks.TASKS["topics"]
    results = training.fine_tune(spec, config(do_train=True, do_eval=True))
    assert results["dev"]["eval_accuracy"] == 1.0
    assert (tmp_path / "out/eval_results.txt").exists()
    # The best checkpoint's folder is complete, with the side file of the new task.
    assert (tmp_path / "out/best/topics.json").exists()
    caplog.set_level("INFO", "bert_tf")
    assert training.fine_tune(spec, config(do_eval=True)) == results
    assert "reusing" in caplog.text
    # Another task's script does not continue the run.
    other = tasks.TASKS["classification"]
    with pytest.raises(ValueError, match=r"`output_dir`.*run_topics\.py.*topics\.json"):
        training.fine_tune(other, config(do_train=True))


@pytest.mark.slow
def test_it_is_exported(topics, config, run_script, tmp_path):
    training.fine_tune(tasks.TASKS["topics"], config(do_train=True))
    run_script(
        "export_model", f"--model_dir={tmp_path}/out", f"--export_dir={tmp_path}/export",
        "--nowarm_up",
    )  # fmt: skip
    model = tf.saved_model.load(f"{tmp_path}/export/1")
    answer = model.signatures["serving_default"](text=tf.constant(["a i", "g c"]))
    assert np.argmax(answer["probabilities"], -1).tolist() == [1, 0]
