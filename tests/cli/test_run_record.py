"""run.json records how a run was made."""

import hashlib
import json
import platform

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.errors import UserError
from tests.common import QUICK_RUN, WORDS, tiny, write_files, write_hugging_face, write_model

TEXTS = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8
TEXT = "".join(f"{text}\t{label}\n" for text, label in TEXTS)


@pytest.fixture
def flags(tmp_path):
    """Flags of run_classifier.py without --output_dir."""
    write_files(tmp_path, train__tsv=TEXT, dev__tsv=TEXT)
    model = write_model(tmp_path, initializer_range=0.2, num_hidden_layers=1)
    return ["--task_name=tsv", "--header=no", f"--data_dir={tmp_path}", *QUICK_RUN, *model]


def read(folder):
    return json.loads((folder / "run.json").read_text())


def digest(path):
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_run_is_recorded(run_script, flags, tmp_path):
    out = tmp_path / "out"
    run_script(
        "run_classifier", *flags, f"--output_dir={out}", "--do_train", "--do_eval", "--seed=3",
        "--learning_rate=1e-3", "--labels=y,x", "--num_frozen_layers=1", "--eval_steps=12",
        "--best_metric=eval_loss",
    )  # fmt: skip
    record = read(out)
    assert record["versions"] == {
        "bert_tf": bert_tf.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "backend": "tensorflow",
        "python": platform.python_version(),
    }
    assert len(record["command_lines"]) == 1
    config = record["config"]
    assert (config["seed"], config["labels"], config["max_seq_length"]) == (3, ["y", "x"], 8)
    assert config["warmup_proportion"] == 0.1  # a default
    names = [str(tmp_path / f"{split}.tsv") for split in ("train", "dev")]
    assert record["data"] == {name: digest(tmp_path / name) for name in names}
    assert record["weights"] == {"path": None, "revision": None}
    metrics = record["metrics"]
    assert metrics["dev"]["global_step"] == 24
    text = (out / "eval_results.txt").read_text()
    assert f"eval_accuracy = {metrics['dev']['eval_accuracy']}\n" in text

    # Evaluation keeps the record of the training.
    flags += [f"--output_dir={out}", "--labels=y,x", "--do_eval"]
    run_script("run_classifier", *flags)
    evaluated = read(out)
    assert len(evaluated.pop("command_lines")) == 2
    del record["command_lines"]
    assert evaluated == record

    # A refused run writes nothing.
    write_files(tmp_path, train__tsv=TEXT + TEXT, dev__tsv=TEXT + TEXT)
    before = {path: digest(path) for path in out.rglob("*") if path.is_file()}
    adam = "--do_train --num_frozen_layers=1 --optimizer=adamw"
    for more in (adam, "--do_train --optimizer=lamb --num_frozen_layers=1", "--do_train",
                 "--best_metric=eval_accuracy"):  # fmt: skip
        with pytest.raises(UserError, match=r"optimizer|adam_m is missing|best checkpoint by"):
            run_script("run_classifier", *flags, *more.split())
        assert before == {path: digest(path) for path in out.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_resumed_run_keeps_command_lines_and_weights(run_script, tmp_path):
    commit = "1" * 40
    folder = tmp_path / "models--a--b" / "snapshots" / commit
    folder.parent.mkdir(parents=True)
    model = bert_tf.BertModel(tiny(vocab_size=len(WORDS), num_hidden_layers=1))
    write_hugging_face(folder, model)
    write_files(tmp_path, train__tsv=TEXT)
    out, path = tmp_path / "out", tmp_path / "train.tsv"

    def run(num_epochs):
        return run_script(
            "run_classifier", f"--output_dir={out}", f"--model={folder}", "--do_train", *QUICK_RUN,
            "--task_name=tsv", f"--train_file={path}", f"--num_train_epochs={num_epochs}",
        )  # fmt: skip

    run(1)
    weights = read(out)["weights"]
    assert weights["revision"] == commit
    file = folder / "model.safetensors"
    assert weights["files"] == {str(file): digest(file)}

    write_files(tmp_path, train__tsv=TEXT + TEXT)
    assert f"from {out}: do_lower_case=True" in run(2)
    resumed = read(out)
    assert len(resumed["command_lines"]) == 2
    assert resumed["weights"] == weights
    assert resumed["config"]["num_train_epochs"] == 2
    assert resumed["data"] == {str(path): digest(path)}

    (out / "run.json").write_text("{}")
    message = "run.json: command_lines is missing, .*; expected a file written by a training run"
    with pytest.raises(UserError, match=message):
        run(2)
