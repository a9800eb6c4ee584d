"""Training flags take effect in one process and in two workers."""

import json
import subprocess
import sys

import pytest

from bert_tf import checkpoints, training
from tests.common import QUICK_RUN, read_results, read_table, write_files, write_model
from tests.training.training_helpers import worker_environments

TEXTS = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8


@pytest.fixture
def flags(tmp_path):
    """Flags of run_classifier.py for a tiny model and texts labelled by their letters."""
    text = "".join(f"{text}\t{label}\n" for text, label in TEXTS[:-1])
    write_files(tmp_path, train__tsv=text, dev__tsv=text, test__tsv=text)
    return [
        "--task_name=tsv", f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/run", "--do_train",
        "--do_eval", "--do_predict", *QUICK_RUN, *write_model(tmp_path, initializer_range=0.2),
    ]  # fmt: skip


@pytest.mark.slow
def test_all_training_flags(run_script, flags, tmp_path):
    out = tmp_path / "run"
    log = run_script(
        "run_classifier", *flags, "--num_train_epochs=2", "--learning_rate=1e-2",
        "--dtype=float16", "--recompute", "--optimizer=lamb", "--layer_decay=0.9",
        "--num_frozen_layers=1", "--gradient_accumulation_steps=2", "--eval_steps=4",
        "--best_metric=eval_loss", "--early_stopping_patience=3", "--seed=3",
    )  # fmt: skip
    assert "labels found in train.tsv: x, y" in log
    assert "weights: random, because there is no --init_checkpoint" in log
    record = json.loads((out / "best/best.json").read_text())
    assert record["metric"] == "eval_loss" and record["value"] < 0.69  # less than log(2)
    assert f"weights: the best checkpoint of this run, {out}/best/model.ckpt-{record['step']}" in (
        log
    )
    results = read_results(out / "eval_results.txt")
    # The release's names, and other names of the same form.
    assert set(results) > {"eval_accuracy", "eval_f1_macro", "eval_loss", "global_step", "loss"}
    assert int(results["global_step"]) == record["step"]
    assert float(results["eval_loss"]) == pytest.approx(record["value"], abs=1e-3)
    rows = read_table(out / "test_results.tsv")
    assert [sum(map(float, row)) for row in rows] == pytest.approx([1] * 31, abs=1e-3)
    checkpoint = checkpoints.ReleaseCheckpoint(training.latest(str(out)))
    assert checkpoint.tensor("bert_tf/loss_scale") > 0
    assert checkpoint.tensor("bert_tf/seed") == 3
    assert "bert/encoder/layer_0/output/dense/kernel/adam_m" not in checkpoint.shapes
    assert "bert/encoder/layer_1/output/dense/kernel/adam_m" in checkpoint.shapes
    # The folder of the best checkpoint is a complete model.
    run_script(
        "bert-tf convert", f"--input={out}/best", f"--output_dir={tmp_path}/release",
        "--format=release",
    )  # fmt: skip
    assert (tmp_path / "release/vocab.txt").exists()
    assert checkpoints.ReleaseCheckpoint(str(tmp_path / "release")).shapes


@pytest.mark.slow
def test_two_workers_classify(root, flags, tmp_path, monkeypatch):
    more = [
        "--gradient_accumulation_steps=2", "--num_train_epochs=4", "--eval_steps=20",
        "--best_metric=eval_accuracy", "--distribution_strategy=auto",
    ]  # fmt: skip
    command = [sys.executable, str(root / "run_classifier.py"), *flags, *more]
    processes, logs = [], [tmp_path / f"log{index}" for index in range(2)]
    for path, environment in zip(logs, worker_environments(), strict=True):
        monkeypatch.setenv("TF_CONFIG", environment)
        with open(path, "w") as output:
            processes.append(subprocess.Popen(command, stdout=output, stderr=output))
    assert [process.wait(200) for process in processes] == [0, 0], logs[0].read_text()
    record = json.loads((tmp_path / "run/best/best.json").read_text())
    results = read_results(tmp_path / "run/eval_results.txt")
    assert float(results["eval_accuracy"]) == record["value"]
    assert int(results["global_step"]) == record["step"]
    assert len((tmp_path / "run/test_results.tsv").read_text().splitlines()) == 31
    assert "writing" not in logs[1].read_text()  # only the chief writes
