"""Runs of version 0.1 can be evaluated and resumed, with their features and side files."""

import json
import pathlib
import shutil

import pytest

RECORDED = pathlib.Path(__file__).parent / "v0_1"

FLAGS = {
    "classifier": ["run_classifier", "--dev_file={data}/dev.tsv"],
    "squad": ["run_squad", "--predict_file={data}/squad_data.json", "--do_predict"],
    "ner": ["run_ner", "--dev_file={data}/dev.txt"],
    "choice": ["run_multiple_choice", "--dev_file={data}/dev.csv"],
}


def eval_results(path):
    lines = (path / "eval_results.txt").read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


@pytest.mark.parametrize(
    "name",
    ["classifier", "squad", *(pytest.param(x, marks=pytest.mark.slow) for x in ("ner", "choice"))],
)
def test_evaluation_gives_the_recorded_results(name, run_script, tmp_path):
    folder = tmp_path / name
    shutil.copytree(RECORDED / name, folder)
    (folder / "eval_results.txt").unlink()
    script, *flags = (flag.format(data=RECORDED / "data") for flag in FLAGS[name])
    log = run_script(
        script, *flags, "--do_eval", f"--output_dir={folder}", "--distribution_strategy=one_device"
    )
    assert f"reusing {folder}/eval.tf_record" in log
    expected = eval_results(RECORDED / name)
    found = eval_results(folder)
    # Later versions have more metrics.
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    if name == "squad":
        predictions = json.loads((folder / "predictions.json").read_text())
        assert predictions == json.loads((RECORDED / name / "predictions.json").read_text())


@pytest.mark.slow
def test_training_is_resumed(run_script, tmp_path):
    folder, data = tmp_path / "classifier", RECORDED / "data"
    shutil.copytree(RECORDED / "classifier", folder)
    log = run_script(
        "run_classifier", f"--train_file={data}/train.tsv", "--numeric_columns=x", "--do_train",
        f"--vocab_file={data}/vocab.txt", f"--bert_config_file={data}/config.json",
        "--max_seq_length=8", "--train_batch_size=2", "--num_train_epochs=3",
        f"--output_dir={folder}", "--distribution_strategy=one_device", "--bucket_by_length",
    )  # fmt: skip
    assert f"reusing {folder}/train.tf_record" in log
    assert "step 5 to 6" in log or "step 4 to 6" in log
    assert (folder / "model.ckpt-6.index").exists()
    assert "--bucket_by_length changed from 0 to 1 since " in log
