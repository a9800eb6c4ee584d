"""Scripts run from Python."""

import os
import shlex
import subprocess
import sys

import pytest

import bert_tf
from bert_tf import commands


def test_shows_the_command_and_what_the_script_says(tmp_path, root, monkeypatch, capsys):
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
    said = capsys.readouterr().out
    typed, _, rest = said.partition("\n\n")
    words = shlex.split(typed.removeprefix("$ ").replace("\\\n", " "))
    assert words[:3] == ["python", "-m bert_tf vocab learn", f"--input_file={corpus}"]
    # Standard error is among it: our lines go there.
    assert "vocab.txt" in rest
    assert "rose" in vocabulary.read_text().split()


def test_a_failure_is_an_error_with_the_reason_shown(monkeypatch, root, capsys):
    monkeypatch.chdir(root)
    with pytest.raises(bert_tf.UserError, match=r"^run_ner\.py ended with exit status 1$"):
        commands.run("run_ner.py", help="?")
    with pytest.raises(bert_tf.UserError, match="ended with exit status"):
        commands.run("gone.py", flag=True)
    assert "--flag\n" in capsys.readouterr().out


def test_writes_to_the_process_itself_where_nothing_stands_between(tmp_path, root):
    """A person at a terminal sees it as if it had been typed."""
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
