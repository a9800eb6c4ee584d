"""Training flags take effect."""

import json

import pytest

from bert_tf import checkpoints, training
from tests.common import QUICK_RUN, read_results, read_table, write_files, write_model


@pytest.mark.slow
def test_all_training_flags(run_script, tmp_path):
    out, rows = tmp_path / "run", [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8
    text = "".join(f"{text}\t{label}\n" for text, label in rows[:-1])
    write_files(tmp_path, train__tsv=text, dev__tsv=text, test__tsv=text)
    flags = [
        "--task_name=tsv", f"--data_dir={tmp_path}", f"--output_dir={out}", "--do_train",
        "--do_eval", "--do_predict", *QUICK_RUN, *write_model(tmp_path, initializer_range=0.2),
    ]  # fmt: skip
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
    assert checkpoint.tensor("bert_tf/seed").tobytes() == b"3"
    assert "bert/encoder/layer_0/output/dense/kernel/adam_m" not in checkpoint.shapes
    assert "bert/encoder/layer_1/output/dense/kernel/adam_m" in checkpoint.shapes
    # The folder of the best checkpoint is a complete model.
    run_script(
        "bert-tf convert", f"--input={out}/best", f"--output_dir={tmp_path}/release",
        "--format=release",
    )  # fmt: skip
    assert (tmp_path / "release/vocab.txt").exists()
    assert checkpoints.ReleaseCheckpoint(str(tmp_path / "release")).shapes
