"""Scripts that are run from Python."""

import os
import shlex
import subprocess
import sys

import pytest

import bert_tf
from bert_tf import commands


def test_run_prints_command_and_output(tmp_path, root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    corpus, vocabulary = tmp_path / "my corpus.txt", tmp_path / "vocab.txt"
    corpus.write_text("a rose is a rose\n")
    commands.run(
        "-m bert_tf vocab learn",
        input_file=corpus,
        vocab_file=vocabulary,
        vocab_size=30,
        num_unused=0,
    )
    command, _, output = capsys.readouterr().out.partition("\n\n")
    words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    assert words[:3] == ["python", "-m bert_tf vocab learn", f"--input_file={corpus}"]
    # The log lines are on standard error.
    assert "vocab.txt" in output
    assert "rose" in vocabulary.read_text().split()


def test_failing_script_is_an_error(monkeypatch, root, capsys):
    monkeypatch.chdir(root)
    with pytest.raises(bert_tf.UserError, match=r"^run_ner\.py ended with exit status 1$"):
        commands.run("run_ner.py", help="?")
    with pytest.raises(bert_tf.UserError, match="ended with exit status"):
        commands.run("gone.py", flag=True)
    assert "--flag\n" in capsys.readouterr().out


def test_output_is_inherited_outside_of_notebooks(tmp_path, root):
    """In a terminal, the script writes to the terminal itself."""
    program = (
        "from bert_tf import commands; commands.run('-m bert_tf.toy_corpus', output_dir='made')"
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "$ python -m bert_tf.toy_corpus \\\n    --output_dir=made\n\n"
    assert "corpus.txt" in done.stderr
