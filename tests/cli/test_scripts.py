"""The scripts as a person runs them: what they write, what they say, how they fail."""

import json
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
import scripts_alone
from test_modeling import TINY

from bert_tf import checkpoints
from bert_tf.data import records
from bert_tf.errors import UserError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "abc")]
LENGTHS = {"S": 8, "P": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Config, vocabulary, records and a labelled set: "a" and "b" are labelled x, "c" and "d" y."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "config.json").write_text(TINY.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    rng = np.random.default_rng(0)
    with records.writing([str(folder / "data.tfrecord")], records.PRETRAINING) as write:
        for _ in range(21):
            write(
                {
                    "input_ids": rng.integers(5, 15, 8),
                    "input_mask": np.ones(8, int),
                    "segment_ids": np.zeros(8, int),
                    "masked_lm_positions": np.array([1, 2]),
                    "masked_lm_ids": rng.integers(5, 15, 2),
                    "masked_lm_weights": np.ones(2, "float32"),
                    "next_sentence_labels": rng.integers(0, 2, 1),
                }
            )
    rows = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c d", "y")] * 8
    text = "".join(f"{text}\t{label}\n" for text, label in rows)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(text[: -len("d c d\ty\n")])  # 31 rows: a last part
    return folder


def run(root, script, *flags, code=0):
    result = subprocess.run(
        [sys.executable, str(root / script), *map(str, flags)], capture_output=True, text=True
    )
    assert result.returncode == code, result.stderr
    return result


def pretrain(root, folder, output_dir, *flags, **kwargs):
    return run(
        root,
        "run_pretraining.py",
        f"--input_file={folder}/data.tfrecord",
        f"--bert_config_file={folder}/config.json",
        f"--output_dir={output_dir}",
        "--max_seq_length=8",
        "--max_predictions_per_seq=2",
        "--train_batch_size=4",
        "--num_warmup_steps=2",
        *flags,
        **kwargs,
    )


def of_classifier(folder, output_dir):
    """The flags that every run_classifier.py needs."""
    return [
        "--task_name=tsv",
        f"--data_dir={folder}",
        f"--vocab_file={folder}/vocab.txt",
        f"--bert_config_file={folder}/config.json",
        f"--output_dir={output_dir}",
        "--max_seq_length=8",
        "--train_batch_size=4",
    ]


def classify(root, folder, output_dir, *flags, **kwargs):
    return run(root, "run_classifier.py", *of_classifier(folder, output_dir), *flags, **kwargs)


def results(path):
    return dict(line.split(" = ") for line in path.read_text().splitlines())


@pytest.fixture(scope="module")
def classifier(root, folder):
    """A run_classifier.py that trained, evaluated and predicted; its output folder and text."""
    output_dir = folder / "classifier"
    done = classify(
        root,
        folder,
        output_dir,
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--num_train_epochs=60",
        "--learning_rate=3e-3",
    )
    return output_dir, done.stderr


def test_pretraining(root, folder, tmp_path):
    flags = ("--do_train", "--do_eval", "--num_train_steps=6", "--save_checkpoints_steps=2")
    done = pretrain(root, folder, tmp_path / "a", *flags)
    found = results(tmp_path / "a" / "eval_results.txt")
    assert list(found) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    assert found["global_step"] == "6"
    assert "21 examples" in done.stderr  # the last part of a batch counts too
    assert "step 6/6" in done.stderr
    assert len(list((tmp_path / "a").glob("events.out.tfevents*"))) == 1

    # Stopped after four steps and started again, it ends where it would have ended.
    (tmp_path / "b").mkdir()
    for name in ("model.ckpt-4.index", "model.ckpt-4.data-00000-of-00001"):
        (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
    (tmp_path / "b" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    pretrain(root, folder, tmp_path / "b", *flags)
    a, b = (checkpoints.ReleaseCheckpoint(str(tmp_path / run / "model.ckpt-6")) for run in "ab")
    for name in a.shapes:
        np.testing.assert_array_equal(a.tensor(name), b.tensor(name), err_msg=name)


def test_sigterm_saves_and_asks_to_be_resumed(root, folder, tmp_path):
    command = [
        sys.executable,
        str(root / "run_pretraining.py"),
        f"--input_file={folder}/data.tfrecord",
        f"--bert_config_file={folder}/config.json",
        f"--output_dir={tmp_path}/run",
        "--max_seq_length=8",
        "--max_predictions_per_seq=2",
        "--train_batch_size=4",
        "--do_train",
        "--num_train_steps=1000000",
        "--save_checkpoints_steps=1000000",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("step 1/"):
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 75, said
    assert "the same command goes on from there" in said[-1]
    step = int(said[-1].split("at step ")[1].split(",")[0])
    prefix = str(tmp_path / "run" / f"model.ckpt-{step}")
    assert checkpoints.ReleaseCheckpoint(prefix).tensor("global_step") == step


def test_classifier(classifier, folder):
    output_dir, said = classifier
    assert set(results(output_dir / "eval_results.txt")) == {
        "eval_accuracy",
        "eval_loss",
        "global_step",
        "loss",
    }
    assert float(results(output_dir / "eval_results.txt")["eval_accuracy"]) == 1.0
    rows = [line.split("\t") for line in (output_dir / "test_results.tsv").read_text().splitlines()]
    probabilities = np.array(rows, float)
    assert probabilities.shape == (31, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, atol=1e-6)
    labels = [line.split("\t")[1] for line in (folder / "test.tsv").read_text().splitlines()]
    assert ["xy"[i] for i in probabilities.argmax(1)] == labels
    assert "labels found in train.tsv: x, y" in said
    assert "weights: random, no --init_checkpoint is given" in said


def test_export_is_the_model_and_needs_tensorflow_alone(root, classifier, folder, tmp_path):
    output_dir, _ = classifier
    export = f"--export_dir={tmp_path}/export"
    run(root, "export_model.py", f"--model_dir={output_dir}", export, "--inputs=ids")
    program = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serving_default"]
found = []
for row in json.loads(sys.argv[2]):
    ids = tf.constant([row], tf.int32)
    mask = tf.ones_like(ids)
    found.append(serve(input_ids=ids, input_mask=mask, segment_ids=0 * ids))
batch = tf.zeros((3, 5), tf.int32)
wide = serve(input_ids=batch, input_mask=batch, segment_ids=batch)
assert wide["logits"].shape == (3, 2)
assert not [name for name in sys.modules if name.startswith(("bert_tf", "tensorflow_text"))]
print(json.dumps([[x["logits"].numpy().tolist(), x["probabilities"].numpy().tolist()]
                  for x in found]))
"""
    texts = [line.split("\t")[0] for line in (folder / "test.tsv").read_text().splitlines()]
    rows = [[2, *(WORDS.index(c) for c in text.split()), 3] for text in texts]
    done = subprocess.run(
        [sys.executable, "-c", program, f"{tmp_path}/export/1", json.dumps(rows)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = np.loadtxt(output_dir / "test_results.tsv")
    np.testing.assert_allclose([x[1][0] for x in found], expected, atol=1e-6)
    assert (tmp_path / "export/1/assets.extra/labels.txt").read_text() == "x\ny\n"
    # A second export is a second version; a version is never overwritten.
    run(root, "export_model.py", f"--model_dir={output_dir}", export)
    assert (tmp_path / "export/2/saved_model.pb").exists()
    done = run(root, "export_model.py", f"--model_dir={output_dir}", export, "--version=2", code=1)
    assert "--version: " in done.stderr


def mistakes(folder):
    """Yields (name, what is run, flags, what it must say)."""
    train = ["--do_train", "--num_train_steps=2"]
    yield "nothing to do", pretrain, [], "one of --do_train and --do_eval must be set"
    config = [*train, "--bert_config_file=none.json"]
    yield "missing config", pretrain, config, "none.json: cannot be read"
    yield "missing records", pretrain, [*train, "--input_file=nil*"], "no file matches nil*"
    yield "other length", pretrain, [*train, "--max_seq_length=9"], "--max_seq_length=9"
    yield (
        "too long",
        pretrain,
        [*train, "--max_seq_length=13"],
        "--max_seq_length=13 is more than the model's max_position_embeddings, 12",
    )
    damaged = folder / "damaged.tfrecord"
    damaged.write_bytes((folder / "data.tfrecord").read_bytes()[:-20])
    yield (
        "damaged",
        pretrain,
        [*train, f"--input_file={damaged}"],
        f"{damaged}: a record is damaged",
    )
    other = folder / "other.json"
    other.write_text(json.dumps({**TINY.to_dict(), "hidden_size": 32}))
    small = folder / "small.json"
    small.write_text(json.dumps({**TINY.to_dict(), "vocab_size": 10}))
    yield (
        "vocabulary",
        classify,
        ["--do_train", f"--bert_config_file={small}"],
        "has 18 entries, but the model's vocab_size is 10",
    )
    yield "task", classify, ["--do_train", "--task_name=nli"], "'nli' is not one of CoLA, SST-2, "
    yield (
        "missing data",
        classify,
        ["--do_eval", "--data_dir=none"],
        "there is none of dev.tsv, dev.csv in none",
    )
    yield "nothing trained", classify, ["--do_predict"], "those of random weights"
    yield "stray argument", classify, ["train"], "what is 'train'?"
    strange = folder / "strange"
    strange.mkdir(exist_ok=True)
    (strange / "train.tsv").write_text("a\tx\nb\ty\n")
    (strange / "dev.tsv").write_text("a\tx\nb\tz\n")
    yield (
        "label",
        classify,
        ["--do_train", "--do_eval", f"--data_dir={strange}"],
        "dev.tsv, line 2: the label 'z' is not one of x, y",
    )
    checkpoints.write(
        str(folder / "big" / "model.ckpt"), {"bert/embeddings/word_embeddings": np.zeros((9, 9))}
    )
    yield (
        "checkpoint",
        classify,
        ["--do_train", f"--init_checkpoint={folder}/big/model.ckpt"],
        "word_embeddings has the shape (9, 9) in the checkpoint, but (50, 16) in the model",
    )


# Run as a person does; the others in this process, where a `UserError` is what is told so.
_ALONE = ("nothing to do", "damaged", "stray argument")


def test_mistakes_get_one_sentence_and_leave_nothing(root, folder, tmp_path, monkeypatch):
    def run_here(root, script, *flags, code):
        with pytest.raises(UserError) as caught:
            run_script(script.removesuffix(".py"), *flags)
        return types.SimpleNamespace(stderr=f"{script}: error: {caught.value}")

    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("run_pretraining", "run_classifier") as run_script:
        for name, *mistake in mistakes(folder):
            with monkeypatch.context() as here:
                if name not in _ALONE:
                    here.setattr(sys.modules[__name__], "run", run_here)
                check_mistake(root, folder, tmp_path / name.replace(" ", "_"), name, *mistake)


def check_mistake(root, folder, output_dir, name, start, flags, message):
    done = start(root, folder, output_dir, *flags, code=1)
    last = done.stderr.strip().splitlines()[-1]
    assert message in last, (name, done.stderr)
    assert ": error: " in last
    assert "Traceback" not in done.stderr
    left = [path.name for path in output_dir.rglob("*") if path.is_file()]
    assert not [x for x in left if "events" not in x and "tmp" in x], left
    assert not [x for x in left if x.startswith(("model.ckpt", "eval_results"))], left


@pytest.mark.parametrize(
    "script",
    [
        "create_pretraining_data.py",
        "run_pretraining.py",
        "run_classifier.py",
        "run_ner.py",
        "run_squad.py",
        "run_multiple_choice.py",
        "export_model.py",
        "extract_features.py",
        "-m bert_tf embed",
        "predict.py",
        "-m bert_tf ask",
        "-m bert_tf fill-mask",
        "-m bert_tf attention",
        "-m bert_tf convert",
        "-m bert_tf vocab learn",
        "-m bert_tf vocab add",
        "quickstart.py",
    ],
)
def test_help_does_not_wait_for_tensorflow(root, script):
    program = f"""
import runpy, sys
sys.argv = [{script!r}, "--help"]
try:
    runpy.run_path({str(root / script)!r}, run_name="__main__")
except SystemExit:
    pass
assert "tensorflow" not in sys.modules and "numpy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "flags:" in done.stdout
