"""The scripts as users run them: output, resuming, messages, help."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from absl.testing import flagsaver

from bert_tf import checkpoints
from bert_tf.cli import flags
from bert_tf.cli.main import COMMANDS
from bert_tf.errors import UserError
from tests import scripts_alone
from tests.common import (
    TINY,
    WORDS,
    model_flags,
    read_results,
    run_python,
    write_files,
    write_model,
)
from tests.data.pretraining_helpers import write_records

PRETRAINING_FLAGS = [
    "--max_seq_length=8",
    "--max_predictions_per_seq=2",
    "--train_batch_size=4",
    "--num_warmup_steps=2",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, records and labelled texts: x for "a" and "b", y for "c" and "d"."""
    folder = tmp_path_factory.mktemp("scripts")
    write_model(folder, initializer_range=0.2, num_hidden_layers=1)
    (folder / "dropout.json").write_text(
        json.dumps({**TINY.to_dict(), "num_hidden_layers": 1, "hidden_dropout_prob": 0.1})
    )
    write_records(folder / "data.tfrecord", 21)
    rows = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8
    text = "".join(f"{text}\t{label}\n" for text, label in rows[:-1])  # a partial last batch
    write_files(folder, train__tsv=text, dev__tsv=text, test__tsv=text)
    return folder


def pretraining_flags(folder, output_dir):
    return [
        f"--input_file={folder}/data.tfrecord",
        f"--bert_config_file={folder}/dropout.json",
        f"--output_dir={output_dir}",
        *PRETRAINING_FLAGS,
    ]


def classifier_flags(folder, output_dir):
    return [
        "--task_name=tsv",
        f"--data_dir={folder}",
        f"--output_dir={output_dir}",
        "--max_seq_length=8",
        "--train_batch_size=4",
        *model_flags(folder),
    ]


def test_pretraining_is_evaluated_and_resumed(run_script, folder, tmp_path):
    flags = [
        "--do_train", "--num_train_steps=6", "--save_checkpoints_steps=2", "--eval_steps=3",
        "--best_metric=masked_lm_loss", f"--eval_file={folder}/data.tfrecord",
        "--optimizer=adamw", "--dtype=bfloat16",
    ]  # fmt: skip
    a, b = tmp_path / "a", tmp_path / "b"
    log = run_script("run_pretraining", *pretraining_flags(folder, a), *flags, "--do_eval")
    results = read_results(a / "eval_results.txt")
    assert list(results) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
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
    tensors, resumed = (
        checkpoints.ReleaseCheckpoint(str(tmp_path / run / "model.ckpt-6")) for run in "ab"
    )
    for name in tensors.shapes:
        np.testing.assert_array_equal(tensors.tensor(name), resumed.tensor(name), err_msg=name)

    # The change of records is logged.
    data = (folder / "data.tfrecord").read_bytes()
    (tmp_path / "data.tfrecord").write_bytes(data + data)
    data_flag = f"--input_file={tmp_path}/data.tfrecord"
    log = run_script("run_pretraining", *pretraining_flags(folder, b), *flags, data_flag)
    assert f"model.ckpt-6 (from 1 with {len(data)} bytes to 1 with {2 * len(data)} bytes)" in log

    # A different model in the same folder is an error, and nothing is overwritten.
    (tmp_path / "other.json").write_text(json.dumps({**TINY.to_dict(), "num_attention_heads": 1}))
    with pytest.raises(UserError, match=rf"--bert_config_file: .*num_attention_heads in {a}"):
        run_script(
            "run_pretraining", *pretraining_flags(folder, a), *flags,
            f"--bert_config_file={tmp_path}/other.json",
        )  # fmt: skip
    assert json.loads((a / "bert_config.json").read_text())["num_attention_heads"] == 2


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


@pytest.mark.slow  # test_training_flags.py and test_run_classifier.py train and export in-process
def test_exported_classifier_needs_only_tensorflow(run_script, folder, tmp_path):
    output_dir, export = tmp_path / "out", f"--export_dir={tmp_path}/export"
    run_script(
        "run_classifier", *classifier_flags(folder, output_dir), "--do_train", "--do_eval",
        "--do_predict", "--num_train_epochs=60", "--learning_rate=3e-3",
    )  # fmt: skip
    assert float(read_results(output_dir / "eval_results.txt")["eval_accuracy"]) == 1.0
    run_script("export_model", f"--model_dir={output_dir}", export, "--inputs=ids")
    program = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serving_default"]
rows = []
for row in json.loads(sys.argv[2]):
    ids = tf.constant([row], tf.int32)
    mask = tf.ones_like(ids)
    rows.append(serve(input_ids=ids, input_mask=mask, segment_ids=0 * ids))
batch = tf.zeros((3, 5), tf.int32)
wide = serve(input_ids=batch, input_mask=batch, segment_ids=batch)
assert wide["logits"].shape == (3, 2)
assert not [name for name in sys.modules if name.startswith(("bert_tf", "tensorflow_text"))]
print(json.dumps([x["probabilities"].numpy().tolist()[0] for x in rows]))
"""
    texts = [line.split("\t")[0] for line in (folder / "test.tsv").read_text().splitlines()]
    rows = [[2, *(WORDS.index(c) for c in text.split()), 3] for text in texts]
    answers = run_python("-c", program, f"{tmp_path}/export/1", json.dumps(rows), cwd=tmp_path)
    expected = np.loadtxt(output_dir / "test_results.tsv")
    np.testing.assert_allclose(json.loads(answers), expected, atol=1e-6)
    # A second export adds a version and overwrites nothing.
    run_script("export_model", f"--model_dir={output_dir}", export)
    assert (tmp_path / "export/2/saved_model.pb").exists()
    with pytest.raises(UserError, match="--version=2: "):
        run_script("export_model", f"--model_dir={output_dir}", export, "--version=2")


SCRIPTS = (
    "create_pretraining_data.py",
    "run_pretraining.py",
    "run_classifier.py",
    "run_ner.py",
    "run_squad.py",
    "run_multiple_choice.py",
    "run_sentence_encoder.py",
    "export_model.py",
    "extract_features.py",
    "predict.py",
    "quickstart.py",
)

# Each command runs in a fork, because two scripts cannot define the same flag in one process.
PROGRAM = """
import json, os, runpy, sys, traceback
import bert_tf.cli.flags
commands, scripts = json.loads(sys.argv[1])
for name, arguments in commands:
    print("==", name, flush=True)
    print("==", name, file=sys.stderr, flush=True)
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("status", status, flush=True)
        continue
    sys.argv = arguments
    status = 99
    try:
        if arguments[0] in scripts:
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            runpy.run_module("bert_tf", run_name="__main__")
    except SystemExit as exit:
        status = exit.code or 0
    except BaseException:
        traceback.print_exc()
    if "tensorflow" in sys.modules:
        status = 98
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""


def check_help(text):
    """Check the layout of a help text: known titles, each flag once, lines up to 80 characters."""
    assert all(len(line) <= 80 for line in text.splitlines())
    titles = re.findall(r"^(.+):\n  --", text, re.MULTILINE)
    assert titles == [x for x in flags._TITLES if x in titles]
    names = re.findall(r"^  --(?:\[no\])?(\w+)", text, re.MULTILINE)
    assert names and len(set(names)) == len(names)


def test_help_and_flag_errors_do_not_wait_for_tensorflow(root, tmp_path):
    commands = {f"{name} --help": [name, "--help"] for name in SCRIPTS}
    commands |= {f"bert-tf {x} --help": ["bert-tf", *x.split(), "--help"] for x in COMMANDS}
    commands |= {name: ["run_squad.py", f"--{name}"] for name in ("helpshort", "helpfull")}
    commands["stray"] = ["run_classifier.py", "--output_dir=x", "train"]
    commands["unknown"] = ["run_ner.py", "--output_dir=x", "--max_seq_lenth=8"]
    words = ["bert-tf", "vocab", "learn", "--input_file=none.txt", f"--vocab_file={tmp_path}/x"]
    commands["missing"] = words
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([list(commands.items()), SCRIPTS])],
        cwd=root, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "80"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs, errors = (
        dict(part.split("\n", 1) for part in text.split("== ")[1:])
        for text in (done.stdout, done.stderr)
    )
    for name in commands:
        if name.endswith("--help"):
            assert outputs[name].endswith("\nstatus 0\n"), errors[name]
            check_help(outputs[name].removesuffix("status 0\n"))
    assert outputs["helpshort"] == outputs["run_squad.py --help"]
    assert "--n_best_size:" in outputs["helpfull"] and "--flagfile:" in outputs["helpfull"]
    assert outputs["stray"] == "status 1\n"
    assert errors["stray"].startswith("run_classifier.py: error: unexpected argument 'train'")
    assert outputs["unknown"] == outputs["missing"] == "status 1\n"
    assert errors["missing"] == (
        "bert-tf vocab learn: error: --input_file: no file matches none.txt\n"
    )
    assert errors["unknown"].startswith("run_ner.py: error: Unknown command line flag 'max_seq_l")
    assert (
        "Did you mean: max_seq_length" in errors["unknown"] and "Traceback" not in errors["unknown"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--output_dir is required"),
        (["--output_dir=x", "--train_batch_size=x"], "--train_batch_size=x: expected an integer"),
        (["--train_batch_size=0"], "--train_batch_size=0: expected an integer between 1 and "),
        (["--learning_rate=x"], "--learning_rate=x: expected a finite number"),
        (["--do_train=maybe"], "--do_train=maybe: expected true or false"),
        (["--dtype=bf16"], "--dtype=bf16: expected one of float32, bfloat16, float16"),
        (["--output_dir"], "Missing value for flag --output_dir"),
    ],
)
def test_errors_of_flags_have_the_form_of_all_errors(root, monkeypatch, capsys, arguments, message):
    """Absl's two lines become one, "SCRIPT: error: ...", and the status is 1."""
    from bert_tf.cli.flags import _parse

    monkeypatch.syspath_prepend(str(root))
    with (
        scripts_alone.imported("run_classifier") as run,
        scripts_alone._isolated(run.flags_of["run_classifier"]),
        flagsaver.flagsaver(),
        pytest.raises(SystemExit) as exit,
    ):
        _parse(["./run_classifier.py", *arguments])
    assert exit.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"run_classifier.py: error: {message}")
