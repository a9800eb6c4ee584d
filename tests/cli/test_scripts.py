"""The scripts as users run them: output, resuming, messages, help."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from bert_tf import checkpoints
from bert_tf.__main__ import COMMANDS
from bert_tf.errors import UserError
from tests import fork_server
from tests.common import TINY, read_results, read_tensors, write_model
from tests.data.pretraining_helpers import write_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two configurations and records."""
    folder = tmp_path_factory.mktemp("scripts")
    write_model(folder, initializer_range=0.2, num_hidden_layers=1)
    config = {**TINY.to_dict(), "num_hidden_layers": 1, "hidden_dropout_prob": 0.1}
    (folder / "dropout.json").write_text(json.dumps(config))
    write_records(folder / "data.tfrecord", 21)
    return folder


def pretraining_flags(folder, output_dir):
    return [
        f"--input_file={folder}/data.tfrecord", f"--bert_config_file={folder}/dropout.json",
        f"--output_dir={output_dir}", "--max_seq_length=8", "--max_predictions_per_seq=2",
        "--train_batch_size=4", "--num_warmup_steps=2",
    ]  # fmt: skip


def test_pretraining_is_evaluated_and_resumed(run_script, folder, tmp_path):
    flags = [
        "--do_train", "--num_train_steps=6", "--save_checkpoints_steps=2", "--eval_steps=3",
        "--best_metric=masked_lm_loss", f"--eval_file={folder}/data.tfrecord",
        "--optimizer=adamw", "--dtype=bfloat16", "--attention_probs_dropout_prob=0.25",
    ]  # fmt: skip
    a, b = tmp_path / "a", tmp_path / "b"
    log = run_script("run_pretraining", *pretraining_flags(folder, a), *flags, "--do_eval")
    results = read_results(a / "eval_results.txt")
    assert list(results) == [
        "global_step", "loss", "masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy",
        "next_sentence_loss",
    ]  # fmt: skip
    record = json.loads((a / "best/best.json").read_text())
    assert int(results["global_step"]) == record["step"]
    run = json.loads((a / "run.json").read_text())
    assert list(run["data"]) == [f"{folder}/data.tfrecord"]
    assert run["metrics"]["eval"]["global_step"] == record["step"]
    assert (a / "best/bert_config.json").exists()
    assert "21 examples" in log  # includes the partial last batch
    assert "step 6/6" in log
    assert log.count("evaluation: masked_lm_accuracy") == 2
    assert "warning: --best_metric without --eval_file selects" in log  # both read the same records
    assert len(list(a.glob("events.out.tfevents*"))) == 1

    # A run resumed after four steps ends with the same weights.
    b.mkdir()
    for name in ("model.ckpt-4.index", "model.ckpt-4.data-00000-of-00001"):
        (b / name).write_bytes((a / name).read_bytes())
    (b / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    log = run_script("run_pretraining", *pretraining_flags(folder, b), *flags)
    assert "counting the records of 1 files" in log  # without side files
    assert "training files changed" not in log
    tensors, resumed = (read_tensors(tmp_path / run / "model.ckpt-6") for run in "ab")
    for name, value in tensors.items():
        np.testing.assert_array_equal(value, resumed[name], err_msg=name)

    # The change of records is logged.
    data = (folder / "data.tfrecord").read_bytes()
    (tmp_path / "data.tfrecord").write_bytes(data + data)
    data_flag = f"--input_file={tmp_path}/data.tfrecord"
    log = run_script("run_pretraining", *pretraining_flags(folder, b), *flags, data_flag)
    assert f"model.ckpt-6 (from 1 with {len(data)} bytes to 1 with {2 * len(data)} bytes)" in log

    # A different model in the same folder is an error, and nothing is overwritten.
    (tmp_path / "other.json").write_text(json.dumps({**TINY.to_dict(), "num_attention_heads": 1}))
    with pytest.raises(UserError, match=rf"--bert_config_file: .*bert_config.json in {a}"):
        run_script(
            "run_pretraining", *pretraining_flags(folder, a), *flags,
            f"--bert_config_file={tmp_path}/other.json",
        )  # fmt: skip
    config = json.loads((a / "bert_config.json").read_text())
    assert (config["num_attention_heads"], config["attention_probs_dropout_prob"]) == (2, 0.25)


@pytest.mark.slow
def test_sigterm_saves_and_exits_with_a_status(root, folder, tmp_path):
    """The script prints plain log lines without a traceback and exits with status 75."""
    command = [
        sys.executable, str(root / "run_pretraining.py"),
        *pretraining_flags(folder, tmp_path / "run"), "--do_train", "--num_train_steps=1000000",
        "--save_checkpoints_steps=1000000",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("step 1/"):
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 75, lines
    assert lines[0].startswith("devices: ")  # without TensorFlow's messages
    assert lines[-1].startswith("run_pretraining.py: stopped by SIGTERM at step ")
    step = int(lines[-1].split("at step ")[1].split(",")[0])
    prefix = str(tmp_path / "run" / f"model.ckpt-{step}")
    assert checkpoints.ReleaseCheckpoint(prefix).tensor("global_step") == step


# Command lines of run_classifier.py and their errors. Absl prints two lines for some.
FLAG_ERRORS = {
    " ": "--output_dir is required",
    "--output_dir=x train": "unexpected argument 'train'",
    "--output_dir=x --train_batch_size=x": "--train_batch_size=x: expected an integer",
    "--train_batch_size=0": "--train_batch_size=0: expected an integer between 1 and ",
    "--help=maybe --do_eval": "--help=maybe: expected true or false",
    "--do_train=maybe": "--do_train=maybe: expected true or false",
    "--dtype=bf16": "--dtype=bf16: expected one of float32, bfloat16, float16",
    "--output_dir": "Missing value for flag --output_dir",
}


def test_help_and_flag_errors_do_not_wait_for_tensorflow(root, tmp_path):
    scripts = sorted({path.name for path in root.glob("*.py")} - {"setup.py"})
    commands = {f"{name} --help": [name, "--help"] for name in scripts}
    commands |= {f"bert-tf {x} --help": ["-m", "bert_tf", *x.split(), "--help"] for x in COMMANDS}
    commands |= {name: ["run_squad.py", f"--{name}"] for name in ("helpshort", "helpfull")}
    commands["unknown"] = ["run_ner.py", "--output_dir=x", "--max_seq_lenth=8"]
    commands |= {line: ["./run_classifier.py", *line.split()] for line in FLAG_ERRORS}
    commands["missing"] = ["-m", "bert_tf", "vocab", "learn", "--input_file=none.txt",
                           f"--vocab_file={tmp_path}/x"]  # fmt: skip
    (tmp_path / "tensorflow.py").write_text("raise SystemExit(99)")
    path = f"{root}{os.pathsep}{tmp_path}"
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "80"}
    outputs, errors, address = {}, {}, str(tmp_path / "server")
    with fork_server.serving(address, environment, ["bert_tf.cli.flags"]):
        for name, words in commands.items():
            paths = tmp_path / "out", tmp_path / "err"
            with open(paths[0], "w") as out, open(paths[1], "w") as err:
                files = [out.fileno(), out.fileno(), err.fileno()]
                _, connection = fork_server.start(address, words, root, environment, files)
                status, _ = fork_server.wait(connection)
            assert status == (0 if "--help" in words[-1] else 1), name
            outputs[name], errors[name] = (x.read_text() for x in paths)
    assert all("\n  --" in outputs[name] for name in commands if name.endswith("--help"))
    assert outputs["helpshort"] == outputs["run_squad.py --help"]
    assert "--n_best_size:" in outputs["helpfull"] and "--flagfile:" in outputs["helpfull"]
    for name, message in FLAG_ERRORS.items():
        assert not outputs[name]
        (line,) = errors[name].splitlines()
        assert line.startswith(f"run_classifier.py: error: {message}")
    assert not outputs["unknown"] and not outputs["missing"]
    assert errors["missing"].endswith("learn: error: --input_file: no file matches none.txt\n")
    assert errors["unknown"].startswith("run_ner.py: error: Unknown command line flag 'max_seq_l")
    assert "Did you mean: max_seq_length" in errors["unknown"]
