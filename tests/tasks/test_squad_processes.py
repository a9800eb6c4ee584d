"""run_squad.py in several processes: workers that train together, and helpers that are orphaned."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from squad_helpers import dataset, letters, question
from test_killed import log
from test_run_squad import SMALL, model, read, run  # noqa: F401
from test_scripts import results
from test_workers import worker_environments

import bert_tf
from bert_tf.tasks.question_answering import features, reading


def start(root, logs, *flags):
    """Starts the script in a process of its own, whose output goes to `log` in a folder."""
    logs.mkdir(exist_ok=True)
    with open(logs / "log", "w") as output:
        command = [sys.executable, str(root / "run_squad.py"), *map(str, flags)]
        return subprocess.Popen(command, stdout=output, stderr=output)


@pytest.mark.slow
def test_two_workers_answer_as_one(run, root, tmp_path, monkeypatch):  # noqa: F811
    data = letters(tmp_path / "data.json", has_negative=True)
    flags = [
        "--do_train", "--do_predict", "--do_eval", f"--train_file={data}",
        f"--predict_file={data}", "--version_2_with_negative", "--find_null_score_diff_threshold",
        "--eval_steps=30", "--best_metric=eval_f1", *model(tmp_path), *SMALL,
        "--num_train_epochs=16",
    ]  # fmt: skip
    processes = []
    for index, environment in enumerate(worker_environments()):
        monkeypatch.setenv("TF_CONFIG", environment)
        logs = tmp_path / f"worker{index}"
        more = [f"--output_dir={tmp_path}/two", "--distribution_strategy=auto"]
        processes.append(start(root, logs, *flags, *more))
    monkeypatch.delenv("TF_CONFIG")
    one, two = tmp_path / "one", tmp_path / "two"
    run("run_squad", *flags, f"--output_dir={one}")
    assert [process.wait(200) for process in processes] == [0, 0], log(tmp_path / "worker0")
    assert "training: step 0 to 60" in log(tmp_path / "worker1")
    assert read(two / "predictions.json") == read(one / "predictions.json")
    found, expected = (
        {name: float(value) for name, value in results(folder / "eval_results.txt").items()}
        for folder in (two, one)
    )
    assert found == pytest.approx(expected, abs=1e-4)
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
        kept = read(folder / "squad.json")["null_score_diff_threshold"]
        assert kept == pytest.approx(threshold, abs=1e-3)
    for name in ("train.tf_record", "eval.tf_record"):
        assert (two / name).read_bytes() == (one / name).read_bytes()
    assert "writing" not in log(tmp_path / "worker1"), "the chief alone writes"


def test_workers_must_agree_about_features():
    """Before one of them writes: the others would read what is not of their data."""
    kept = types.SimpleNamespace(
        path="eval.tf_record", stale_reason="there is none yet", key="ab" * 32
    )
    workers = types.SimpleNamespace(mean=lambda share, key: (share / 2, key))
    with pytest.raises(bert_tf.UserError, match="used as it is on some workers and not on others"):
        bert_tf.cli.fine_tuning.must_be_made(kept, workers)
    workers = types.SimpleNamespace(mean=lambda share, key: (share, key + 0.5))
    with pytest.raises(bert_tf.UserError, match="tf_record: other workers have other data or sett"):
        bert_tf.cli.fine_tuning.must_be_made(kept, workers)


def children(pid):
    """The processes that one has started and that still run."""
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds):
    """Waits for it, for so many seconds at most; says whether it came."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.skipif(
    not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"),
    reason="no /proc that knows the children of a process",
)
def test_killed_while_two_processes_make_features(run, root, tmp_path):  # noqa: F811
    text = "a C b d e f g h i j " * 300
    paragraphs = [(text, [question(f"{i}.{j}", "a b", text, "C") for j in range(8)])
                  for i in range(250)]  # fmt: skip
    data, out = dataset(tmp_path / "data.json", paragraphs), tmp_path / "out"
    flags = [
        "--do_train", f"--train_file={data}", f"--output_dir={out}", *model(tmp_path), *SMALL,
        "--max_seq_length=128", "--doc_stride=64", "--num_processes=2", "--num_train_epochs=0.002",
    ]  # fmt: skip
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 128}))

    def written():
        return sum(path.stat().st_size for path in out.glob("train.tf_record.tmp-*"))

    process = start(root, tmp_path / "log", *flags)
    assert until(lambda: written() or process.poll() is not None, 200)
    helpers = children(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log(tmp_path / "log")
    assert len(helpers) >= 2, log(tmp_path / "log")
    assert until(lambda: not any(map(is_running, helpers)), 20), "they outlive it"
    assert written(), "it was killed in the middle"
    assert not (out / "train.tf_record").exists()
    assert not (out / "train.tf_record.json").exists()

    assert start(root, tmp_path / "log", *flags).wait(200) == 0, log(tmp_path / "log")
    assert "train.tf_record is made: there is none yet" in log(tmp_path / "log")
    assert not list(out.glob("*.tmp-*"))
    tokenizer = bert_tf.FullTokenizer(str(tmp_path / "vocab.txt"))
    source = reading.JsonSource(str(data), "train_file")
    path = tmp_path / "expected.tf_record"
    features.write_windows(str(path), source, tokenizer, features.WindowConfig(128, 64, 4), True, 1)
    assert (out / "train.tf_record").read_bytes() == path.read_bytes()
