"""The example in examples/topics.py: a module and a registry entry make a new objective."""

import contextlib
import functools
import importlib
import sys
from unittest import mock

import pytest

from bert_tf import configs, errors, serving, training
from bert_tf.cli import lines
from bert_tf.configs import task_names
from bert_tf.serving.answers import ANSWERS
from bert_tf.tasks.registry import TASKS, exported_tasks
from tests.common import TINY, WORDS, write_model


@pytest.fixture
def topics(monkeypatch):
    """The module, registered for these tests."""
    monkeypatch.delitem(sys.modules, "examples.topics", raising=False)
    tables = TASKS, ANSWERS, task_names.TASK_CONFIG_FILES
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.enter_context(mock.patch.dict(table))
        yield importlib.import_module("examples.topics")


@pytest.mark.slow
def test_from_training_to_answers(topics, run_script, tmp_path, caplog):
    write_model(tmp_path, TINY, WORDS, num_hidden_layers=1)
    for split in ("train", "dev", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "vowels.txt").write_text("a e\ne a\ni a\na i\n" * 2)
        (tmp_path / split / "consonants.txt").write_text("b c\nc d\nf g\ng h\n" * 2)
    config = functools.partial(
        configs.FineTuneConfig,
        str(tmp_path / "out"),
        topics.TopicsData(data_dir=str(tmp_path)),
        topics.TopicsConfig(max_seq_length=8, smoothing=0.05),
        configs.ModelConfig(
            bert_config_file=f"{tmp_path}/config.json", vocab_file=f"{tmp_path}/vocab.txt"
        ),
        configs.TrainConfig(
            train_batch_size=4, num_train_epochs=10, eval_steps=20, best_metric="eval_accuracy"
        ),
        configs.OptimizerConfig(learning_rate=3e-3),
        configs.DeviceConfig(distribution_strategy="one_device"),
    )
    spec = TASKS["topics"]
    results = training.fine_tune(spec, config(do_train=True, do_eval=True, do_predict=True))
    assert results["dev"]["eval_accuracy"] == 1.0
    predictions = (tmp_path / "out/test_predictions.tsv").read_text().splitlines()
    assert predictions[-1].split("\t")[:2] == ["15", "vowels"]
    # The folder of the best checkpoint includes the new task's side file.
    assert (tmp_path / "out/best/topics.json").exists()
    caplog.set_level("INFO", "bert_tf")
    assert training.fine_tune(spec, config(do_eval=True)) == results
    assert "reusing" in caplog.text
    finder = topics.TopicFinder.from_preset(f"{tmp_path}/out")
    table = {"text": ["a e", "b c"], "topic": ["vowels", "consonants"]}
    finder.fit(table, epochs=1, verbose=0, class_weight="balanced")
    assert finder.evaluate(table)["accuracy"] == 1.0
    finder.save_to_preset(f"{tmp_path}/saved")
    for loaded in (finder, topics.TopicFinder.from_preset(f"{tmp_path}/saved")):
        answers = loaded.predict(["a i", "g c"], top_k=1)
        assert [x["topic"] for x in answers] == ["vowels", "consonants"]
        assert [[*x["probabilities"]] for x in answers] == [["vowels"], ["consonants"]]
    message = "`task_type=multi_label`: expected classification"
    with pytest.raises(errors.UserError, match=message):
        topics.TopicFinder.from_preset(f"{tmp_path}/out", task_type="multi_label")

    run_script(
        "export_model", f"--model_dir={tmp_path}/out", f"--export_dir={tmp_path}/export",
        "--nowarm_up",
    )  # fmt: skip
    # The task defines its answers and its table columns.
    predictor = serving.Predictor(f"{tmp_path}/export")
    assert [x["topic"] for x in predictor(["a i", "g c"])] == ["vowels", "consonants"]
    (tmp_path / "texts.csv").write_text("text\na i\ng c\n")
    printed = []
    table = lines.open_table(predictor, f"{tmp_path}/texts.csv")
    lines.answer_table(predictor, table, None, printed.append)
    assert printed == ["text,prediction\na i,vowels\ng c,consonants\n"]


def test_registry():
    for name, (task_class, options) in exported_tasks().items():
        assert name == task_class.name or options["task_type"] == name
        assert (task_class.config_class.FILE or None) == task_names.EXPORTED_TASKS[name][0]
    assert exported_tasks().keys() == task_names.EXPORTED_TASKS.keys()
    assert ANSWERS.keys() <= exported_tasks().keys()
