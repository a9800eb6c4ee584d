"""quickstart.py: its commands, its table, the folder that it deletes, and its errors."""

import json
import os
import re
import subprocess
import sys
import types

import pytest

from bert_tf.errors import UserError
from examples import toy_corpus
from tests import scripts_alone

SCRIPTS = [
    "-m examples.toy_corpus",
    "-m bert_tf vocab learn",
    "create_pretraining_data.py",
    "run_pretraining.py",
    "run_classifier.py",
    "export_model.py",
]
FILES = [
    "bert_config.json",
    "classifier",
    "classifier_without",
    "corpus.tfrecord",
    "export",
    "heldout.tfrecord",
    "made_by_quickstart.txt",
    "pretrained",
    "results.txt",
    "text",
    "untrained",
    "vocab.txt",
]


@pytest.fixture
def scripts(root, monkeypatch):
    """A runner of quickstart.py and of the scripts that it calls."""
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("quickstart.py", *SCRIPTS) as runner:
        yield runner


@pytest.fixture
def quickstart(scripts, tmp_path, monkeypatch):
    """The module, with an output folder that does not exist yet."""
    module = sys.modules["quickstart"]
    flags = types.SimpleNamespace(
        output_dir=str(tmp_path / "out"), seed=0, num_train_steps=2, only_pretraining=False
    )
    monkeypatch.setattr(module, "FLAGS", flags)
    return module


def check_results(folder):
    table = (folder / "results.txt").read_text()
    assert len(re.findall(r"\d %", table)) == 6 + len(toy_corpus.SAMPLE_TEXTS)
    for text in toy_corpus.SAMPLE_TEXTS:
        assert text in table


@pytest.mark.slow  # the first command of the README does the same, and is run for every issue
def test_whole_path_with_two_steps(root, tmp_path):
    folder = tmp_path / "out"
    command = [sys.executable, "quickstart.py", f"--output_dir={folder}", "--num_train_steps=2"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = [f"{name}.counts.json" for name in FILES if name.endswith(".tfrecord")]
    assert sorted(os.listdir(folder)) == sorted([*FILES, *counts])
    assert {"bert_config.json", "vocab.txt"} <= set(os.listdir(folder / "pretrained"))
    check_results(folder)


def test_whole_path_without_training(scripts, quickstart, tmp_path, monkeypatch, capsys):
    """The scripts accept all flags of the commands; what they would write is made up."""
    folder = tmp_path / "out"
    called = []

    def run(script, **options):
        flags = [f"--{k}" if v is True else f"--{k}={v}" for k, v in options.items()]
        assert scripts.parse(script, *flags) == []
        called.append(script)
        if script == "-m examples.toy_corpus":
            toy_corpus.write(options["output_dir"], corpus=2, heldout=1, train=1, dev=1, test=2)
        elif script == "-m bert_tf vocab learn":
            pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
            (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
        elif script == "create_pretraining_data.py":
            open(options["output_file"], "w").close()
        elif script == "export_model.py":
            (folder / "export/1/assets.extra").mkdir(parents=True)
            (folder / "export/1/assets.extra/labels.txt").write_text("displeased\npleased\n")
        else:
            output_dir = folder / options["output_dir"]
            output_dir.mkdir(exist_ok=True)
            metrics = "masked_lm_accuracy = 0.5\nnext_sentence_accuracy = 0.75\n"
            (output_dir / "eval_results.txt").write_text(metrics)
            (output_dir / "test_results.tsv").write_text("0.4\t0.6\n" * 4)

    def predict(command, input, **_):
        inputs = json.loads(input)
        assert inputs["input_ids"][0][:2] == [2, 5]  # [CLS] the
        assert [len(row) for row in inputs["input_mask"]] == [len(inputs["input_ids"][0])] * 3
        answers = json.dumps([[0.25, 0.75]] * 3)
        return types.SimpleNamespace(returncode=0, stdout=answers, stderr="")

    monkeypatch.setattr(quickstart.commands, "run", run)
    monkeypatch.setattr(quickstart.subprocess, "run", predict)
    quickstart.main()
    assert sorted(os.listdir(folder)) == FILES
    check_results(folder)
    assert set(called) == set(SCRIPTS)
    assert (folder / "results.txt").read_text() in capsys.readouterr().out


def test_deletes_only_its_own_folder(root, quickstart, tmp_path):
    other, own = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    quickstart.make_output_folder(str(own))
    (own / "text").mkdir()
    (own / "text" / "old.txt").write_text("old")
    quickstart.make_output_folder(str(own))
    assert os.listdir(own) == ["made_by_quickstart.txt"]
    with pytest.raises(UserError, match=r"--output_dir: .*thesis\.txt"):
        quickstart.make_output_folder(str(other / "thesis.txt"))
    with pytest.raises(UserError, match=r"thesis\.txt/new: .*cannot be created"):
        quickstart.make_output_folder(str(other / "thesis.txt" / "new"))
    done = subprocess.run(
        [sys.executable, str(root / "quickstart.py"), f"--output_dir={other}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"quickstart.py: error: --output_dir: {other}")
    assert (other / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("script", ["gone.py", "-m gone"])
def test_failing_step_is_named(quickstart, script, capsys):
    with pytest.raises(UserError, match=rf"'Third' .*{script} exited with status \d"):
        quickstart.run_step("Third", script, flag=1)
    assert "--flag=1" in capsys.readouterr().out


def test_does_not_import_tensorflow(root):
    code = "import quickstart, sys; quickstart.bert_tf.FullTokenizer; "
    code += "assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
