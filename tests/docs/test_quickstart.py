"""quickstart.py: its results, the folder that it deletes, and its errors."""

import os
import re
import subprocess
import sys
import types

import pytest

from bert_tf.errors import UserError
from examples import toy_corpus
from tests import scripts_alone


@pytest.fixture
def quickstart(root, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("quickstart.py"):
        module = sys.modules["quickstart"]
        monkeypatch.setattr(module, "FLAGS", types.SimpleNamespace(output_dir=str(tmp_path)))
        yield module


@pytest.mark.slow  # the first command of the README does the same, and is run for every issue
def test_whole_path_with_two_steps(root, tmp_path):
    folder = tmp_path / "out"
    command = [sys.executable, "quickstart.py", f"--output_dir={folder}", "--num_train_steps=2"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    assert folders == {"classifier", "classifier_without", "export", "pretrained", "text",
                       "untrained"}  # fmt: skip
    table = (folder / "results.txt").read_text()
    assert len(re.findall(r"\d %", table)) == 6 + len(toy_corpus.SAMPLE_TEXTS)
    assert all(text in table for text in toy_corpus.SAMPLE_TEXTS)


def test_deletes_only_its_own_folder(root, quickstart, tmp_path):
    other, own = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    quickstart.make_output_folder(str(own))
    (own / "text").mkdir()
    (own / "text" / "old.txt").write_text("old")
    quickstart.make_output_folder(str(own))
    assert os.listdir(own) == ["made_by_quickstart.txt"]
    for path in (other, other / "thesis.txt", other / "thesis.txt" / "new"):
        with pytest.raises(UserError, match="other"):
            quickstart.make_output_folder(str(path))
    assert (other / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("script", ["gone.py", "-m gone"])
def test_failing_step_is_named(quickstart, script):
    with pytest.raises(UserError, match=f"Third.*{script}"):
        quickstart.run_step("Third", script, flag=1)


def test_does_not_import_tensorflow(root):
    code = "import quickstart, sys; quickstart.bert_tf.FullTokenizer; "
    code += "assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
