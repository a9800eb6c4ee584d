"""The flags of training through the scripts: that they reach the run, alone and in two workers."""

import json
import subprocess
import sys

import pytest
from test_killed import log
from test_scripts import classify, folder, of_classifier, pretrain, results, run  # noqa: F401 (a fixture)
from test_training import tensors
from test_workers import worker_environments

from bert_tf import checkpoints


def test_classifier_with_all_of_them(root, folder, tmp_path):  # noqa: F811
    done = classify(
        root,
        folder,
        tmp_path,
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--num_train_epochs=8",
        "--learning_rate=3e-3",
        "--dtype=float16",
        "--recompute",
        "--optimizer=lamb",
        "--layer_decay=0.9",
        "--num_frozen_layers=1",
        "--gradient_accumulation_steps=2",
        "--eval_steps=4",
        "--best_metric=eval_loss",
        "--early_stopping_patience=3",
        "--seed=3",
    )
    record = json.loads((tmp_path / "best" / "best.json").read_text())
    assert record["metric"] == "eval_loss"
    assert f"weights: the best of this run, {tmp_path}/best/model.ckpt-{record['step']}" in (
        done.stderr
    )
    found = results(tmp_path / "eval_results.txt")
    assert int(found["global_step"]) == record["step"]
    assert float(found["eval_loss"]) == pytest.approx(record["value"], abs=1e-3)
    state = tensors(tmp_path)
    assert state["bert_tf/loss_scale"] > 0
    assert state["bert_tf/seed"] == 3
    assert "bert/encoder/layer_0/output/dense/kernel/adam_m" not in state
    assert "bert/encoder/layer_1/output/dense/kernel/adam_m" in state
    # The folder of the best is a model by itself.
    run(
        root,
        "-m bert_tf convert",
        f"--input={tmp_path}/best",
        f"--output_dir={tmp_path}/release",
        "--format=release",
    )
    assert (tmp_path / "release" / "vocab.txt").exists()
    assert checkpoints.ReleaseCheckpoint(str(tmp_path / "release")).shapes


def test_pretraining_on_one_set_with_the_best_on_another(root, folder, tmp_path):  # noqa: F811
    flags = (
        "--do_train",
        "--do_eval",
        "--num_train_steps=6",
        "--eval_steps=3",
        "--best_metric=masked_lm_loss",
        f"--eval_file={folder}/data.tfrecord",
        "--optimizer=adamw",
        "--dtype=bfloat16",
    )
    done = pretrain(root, folder, tmp_path, *flags)
    assert done.stderr.count("evaluation: masked_lm_accuracy") == 2
    assert "the best is that on the records of training" in done.stderr
    assert (tmp_path / "best" / "bert_config.json").exists()
    # Another model on the same folder is refused before anything is overwritten.
    other = json.loads((folder / "config.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**other, "num_attention_heads": 1}))
    done = pretrain(
        root,
        folder,
        tmp_path,
        *flags,
        f"--bert_config_file={tmp_path}/other.json",
        code=1,
    )
    assert "holds a run with another num_attention_heads" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--best_metric=eval_loss"], "--best_metric=eval_loss wants --eval_steps"),
        (["--early_stopping_patience=2"], "--early_stopping_patience wants --best_metric"),
        (["--num_frozen_layers=5"], "--num_frozen_layers=5, but the model has 2 layers"),
    ],
)
def test_flags_that_do_not_go_together(root, folder, tmp_path, flags, message):  # noqa: F811
    done = classify(root, folder, tmp_path, "--do_train", *flags, code=1)
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_classifier_of_two_workers(root, folder, tmp_path, monkeypatch):  # noqa: F811
    flags = (
        "--gradient_accumulation_steps=2",
        "--num_train_epochs=4",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--eval_steps=20",
        "--best_metric=eval_accuracy",
    )
    script = [sys.executable, str(root / "run_classifier.py")]
    processes = []
    for index, environment in enumerate(worker_environments()):
        monkeypatch.setenv("TF_CONFIG", environment)
        (tmp_path / str(index)).mkdir()
        with open(tmp_path / str(index) / "log", "w") as output:
            command = [*script, *of_classifier(folder, tmp_path / "run"), *flags]
            processes.append(subprocess.Popen(command, stdout=output, stderr=output))
    assert [process.wait(200) for process in processes] == [0, 0], log(tmp_path / "0")
    record = json.loads((tmp_path / "run" / "best" / "best.json").read_text())
    found = results(tmp_path / "run" / "eval_results.txt")
    assert float(found["eval_accuracy"]) == record["value"]
    assert int(found["global_step"]) == record["step"]
    rows = (tmp_path / "run" / "test_results.tsv").read_text().splitlines()
    assert len(rows) == 31
    assert "writing" not in log(tmp_path / "1"), "the chief alone writes"
