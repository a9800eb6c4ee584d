"""run.json records how a run was made."""

import hashlib
import json
import platform

import keras
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.errors import UserError
from tests.common import QUICK_RUN, WORDS, tiny, write_files, write_hugging_face

TEXTS = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8
TEXT = "".join(f"{text}\t{label}\n" for text, label in TEXTS)


def read(folder):
    return json.loads((folder / "run.json").read_text())


def digest(path):
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_run_is_recorded(run_script, tmp_path):
    commit, out = "1" * 40, tmp_path / "out"
    model = tmp_path / "models--a--b" / "snapshots" / commit
    model.parent.mkdir(parents=True)
    config = tiny(vocab_size=len(WORDS), num_hidden_layers=1)
    write_hugging_face(model, bert_tf.BertModel(config))
    names = [str(tmp_path / f"{split}.tsv") for split in ("train", "dev")]
    write_files(tmp_path, train__tsv=TEXT, dev__tsv=TEXT)

    def run(*more):
        return run_script(
            "run_classifier", "--task_name=tsv", "--header=no", f"--data_dir={tmp_path}",
            "--labels=y,x", f"--output_dir={out}", "--do_eval", f"--model={model}", *QUICK_RUN,
            "--attention_probs_dropout_prob=0", *more,
        )  # fmt: skip

    train = ["--do_train", "--num_frozen_layers=1", "--eval_steps=12", "--best_metric=eval_loss"]
    run(*train, "--seed=3", "--learning_rate=1e-3")
    record = read(out)
    versions = {x.__name__: x.__version__ for x in (bert_tf, tf, keras)}
    versions |= {"backend": "tensorflow", "python": platform.python_version()}
    assert record["versions"] == versions
    assert len(record["command_lines"]) == 1
    config = record["config"]
    assert (config["seed"], config["labels"], config["max_seq_length"]) == (3, ["y", "x"], 8)
    assert config["warmup_proportion"] == 0.1  # a default
    saved = json.loads((out / "bert_config.json").read_text())
    assert (saved["attention_probs_dropout_prob"], saved["hidden_dropout_prob"]) == (0, 0.1)
    assert record["data"] == {name: digest(tmp_path / name) for name in names}
    weights, file = record["weights"], model / "model.safetensors"
    assert (weights["revision"], weights["files"]) == (commit, {str(file): digest(file)})
    metrics = record["metrics"]
    assert metrics["dev"]["global_step"] == 24
    text = (out / "eval_results.txt").read_text()
    assert f"eval_accuracy = {metrics['dev']['eval_accuracy']}\n" in text

    # Evaluation keeps the record of the training.
    run()
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
            run(*more.split())
        assert before == {path: digest(path) for path in out.rglob("*") if path.is_file()}

    # A resumed run keeps command lines and initial weights.
    assert f"from {out}: do_lower_case=True" in run(*train, "--num_train_epochs=2")
    resumed = read(out)
    assert len(resumed["command_lines"]) == 3 and resumed["weights"] == weights
    assert resumed["config"]["num_train_epochs"] == 2
    assert resumed["data"] == {name: digest(tmp_path / name) for name in names}
    (out / "run.json").write_text("{}")
    message = "run.json: command_lines is missing, .*; expected a file written by a training run"
    with pytest.raises(UserError, match=message):
        run(*train)
