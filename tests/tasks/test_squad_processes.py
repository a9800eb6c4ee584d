"""SQuAD features and answers with several processes, and after a kill."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import features
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig
from bert_tf.tasks.question_answering.features import window_cache
from bert_tf.tasks.question_answering.reading import JsonSource, validate_and_count
from tests.common import read_results, write_model, write_vocab
from tests.squad_helpers import dataset, letters, question
from tests.training.training_helpers import worker_environments


def start(logs, *command):
    """Start a process that writes its output to the file `log` in a folder."""
    logs.mkdir(exist_ok=True)
    with open(logs / "log", "w") as output:
        command = [sys.executable, *map(str, command)]
        return subprocess.Popen(command, stdout=output, stderr=output)


def log(folder):
    return (folder / "log").read_text()


def read(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_two_workers_answer_as_one(root, tmp_path, monkeypatch):
    data = letters(tmp_path / "data.json", has_negative=True)
    flags = [
        "--do_train", "--do_predict", "--do_eval", f"--train_file={data}",
        f"--predict_file={data}", "--version_2_with_negative", "--find_null_score_diff_threshold",
        "--eval_steps=30", "--best_metric=eval_f1", "--max_seq_length=12", "--max_query_length=4",
        "--doc_stride=3", "--train_batch_size=4", "--learning_rate=3e-3", "--max_answer_length=2",
        "--num_train_epochs=16", *write_model(tmp_path, initializer_range=0.2),
    ]  # fmt: skip
    one, two = tmp_path / "one", tmp_path / "two"
    processes = []
    for index, environment in enumerate(worker_environments()):
        monkeypatch.setenv("TF_CONFIG", environment)
        more = [f"--output_dir={two}", "--distribution_strategy=auto"]
        processes.append(start(tmp_path / f"worker{index}", root / "run_squad.py", *flags, *more))
    monkeypatch.delenv("TF_CONFIG")
    more = [f"--output_dir={one}", "--distribution_strategy=one_device"]
    processes.append(start(tmp_path / "single", root / "run_squad.py", *flags, *more))
    assert [process.wait(200) for process in processes] == [0, 0, 0], log(tmp_path / "worker0")
    assert "training: step 0 to 60" in log(tmp_path / "worker1")
    assert read(two / "predictions.json") == read(one / "predictions.json")
    found, expected = (
        {name: float(value) for name, value in read_results(folder / "eval_results.txt").items()}
        for folder in (two, one)
    )
    for name, value in expected.items():
        # Thresholds are sums of logits, as are the odds below.
        assert found[name] == pytest.approx(value, abs=1e-3 if "thresh" in name else 1e-4), name
    assert found.keys() == expected.keys()
    for name, entries in read(one / "nbest_predictions.json").items():
        same = read(two / "nbest_predictions.json")[name]
        assert [entry["text"] for entry in same] == [entry["text"] for entry in entries]
        for key in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [entry[key] for entry in same], [entry[key] for entry in entries], atol=1e-3
            )
    odds = read(one / "null_odds.json")
    assert read(two / "null_odds.json") == pytest.approx(odds, abs=1e-3)
    threshold = read(one / "squad.json")["null_score_diff_threshold"]
    for folder in (two, two / "best"):
        saved = read(folder / "squad.json")["null_score_diff_threshold"]
        assert saved == pytest.approx(threshold, abs=1e-3)
    for name in ("train.tf_record", "eval.tf_record"):
        assert (two / name).read_bytes() == (one / name).read_bytes()
    assert "writing" not in log(tmp_path / "worker1"), "only the chief writes"


def children(pid):
    """Return the ids of the running children of a process."""
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds):
    """Wait for a condition for at most some seconds; return whether it became true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


WRITE_WINDOWS = """
import sys
from bert_tf import FullTokenizer
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig
from bert_tf.tasks.question_answering.features import window_cache
from bert_tf.tasks.question_answering.reading import JsonSource, validate_and_count

source = JsonSource(sys.argv[1], "train_file")
summary, tokenizer = validate_and_count(source, "train"), FullTokenizer(sys.argv[2])
config = QuestionAnsweringConfig(
    max_seq_length=128, doc_stride=64, max_query_length=4, num_processes=2
).resolve()
window_cache(sys.argv[3], source, summary, tokenizer, config, True).rebuild()
"""


@pytest.mark.skipif(
    not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"),
    reason="/proc does not list the children of a process",
)
@pytest.mark.slow
def test_killed_while_two_processes_make_features(tmp_path):
    text = "a C b d e f g h i j " * 300
    paragraphs = [(text, [question(f"{i}.{j}", "a b", text, "C") for j in range(8)])
                  for i in range(200)]  # fmt: skip
    data, folder = dataset(tmp_path / "data.json", paragraphs), tmp_path / "out"
    vocab_file, path = write_vocab(tmp_path), folder / "train.tf_record"
    folder.mkdir()

    def written():
        return sum(temporary.stat().st_size for temporary in folder.glob("train.tf_record.tmp-*"))

    process = start(tmp_path / "log", "-c", WRITE_WINDOWS, data, vocab_file, path)
    assert wait_until(lambda: written() or process.poll() is not None, 200)
    helpers = children(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log(tmp_path / "log")
    assert len(helpers) >= 2, log(tmp_path / "log")
    assert wait_until(lambda: not any(map(is_running, helpers)), 20), "helpers outlive the process"
    assert written(), "it was not killed while writing"
    assert not path.exists() and not (folder / "train.tf_record.json").exists()

    with bert_tf.training.exclusive_directory(str(folder)):
        assert not list(folder.glob("*.tmp-*"))
        few = JsonSource(str(dataset(tmp_path / "few.json", paragraphs[:5])), "train_file")
        tokenizer = bert_tf.FullTokenizer(str(vocab_file))
        config = QuestionAnsweringConfig(
            max_seq_length=128, doc_stride=64, max_query_length=4, num_processes=2
        ).resolve()
        summary = validate_and_count(few, "train")
        cache = window_cache(str(path), few, summary, tokenizer, config, True)
        assert cache.stale_reason
        cache.rebuild()
        assert not cache.stale_reason and cache.metadata["windows"] > 1000
        expected = tmp_path / "expected.tf_record"
        config = dataclasses.replace(config, num_processes=1)
        features.write_windows(str(expected), few, tokenizer, config, True, summary.questions)
    assert path.read_bytes() == expected.read_bytes()
