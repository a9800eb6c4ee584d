"""The flags of the pipeline scripts, and deprecated names."""

import json
import os

import pytest

import bert_tf


@pytest.mark.parametrize(
    ("script", "flags", "message"),
    [
        ("bert-tf embed", "--input_file=IN --query=a --version=0", "--version .*--export_dir"),
        ("bert-tf embed", "--input_file=IN --output_file=OUT --num_nearest=5",
         "--num_nearest .*--query"),
        ("extract_features", "--input_file=IN --output_file=OUT --layers=", "--layers=: "),
        ("extract_features", "--input_file=IN --output_file=OUT "
         "--layer_combination=weighted_sum_all --layer_weights=", "--layer_weights=: "),
        ("extract_features", "--input_file=IN --output_file=OUT --layer_combination=last "
         "--layers=-1", "--layers .*--layer_combination=last"),
    ],
)  # fmt: skip
def test_flags_without_effect_are_errors(run_script, tmp_path, script, flags, message):
    (tmp_path / "in.txt").write_text("a\n")
    for name, path in {"IN": "in.txt", "OUT": "out"}.items():
        flags = flags.replace(name, f"{tmp_path}/{path}")
    with pytest.raises(bert_tf.UserError, match=message):
        run_script(script, *flags.split())
    assert os.listdir(tmp_path) == ["in.txt"]


def test_several_workers_are_an_error(run_script, model_folder, tmp_path, monkeypatch):
    """The error comes before the process waits for the other workers."""
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    task = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(bert_tf.UserError, match="TF_CONFIG"):
        run_script(
            "bert-tf embed", f"--init_checkpoint={model_folder}", f"--export_dir={tmp_path}/export"
        )
    assert not os.listdir(tmp_path)
