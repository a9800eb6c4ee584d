"""The `bert-tf` command: subcommands, their flags and errors."""

import os
import subprocess
import sys

import pytest

from bert_tf.cli import main


@pytest.fixture
def run_main(monkeypatch, capsys):
    """A function that runs `bert-tf` and returns (exit status, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bert-tf", *arguments])
        status = main.main()
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        *(([argument], main.COMMANDS) for argument in ("help", "--help", "-h")),
        ([], main.COMMANDS),
        (["vocab"], ["vocab learn", "vocab add"]),
        (["vocab", "--help"], ["vocab learn", "vocab add"]),
    ],
)
def test_help_lists_commands(run_main, arguments, commands):
    status, out, err = run_main(*arguments)
    assert (status, err) == (0, "")
    listed = [line[2:14].rstrip() for line in out.splitlines() if line.startswith("  ")]
    assert listed == list(commands)


@pytest.mark.parametrize("name", ["train", "vocab unlearn", "--vocab_file=x", "learn"])
def test_unknown_command(run_main, name):
    status, out, err = run_main(*name.split(), "--x=1")
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith("bert-tf: error: ") and repr(name) in err
    assert "vocab learn" in err  # the commands that exist


# Shows help and an error of one command in a process that has not defined flags yet.
PROGRAM = """
import sys
from bert_tf.cli import main
for arguments in (["--help"], ["--input_file=none.txt", "--vocab_file=new.txt"]):
    sys.argv = ["bert-tf", "vocab", "learn", *arguments]
    try:
        main.main()
    except SystemExit as exit:
        print("status", exit.code)
assert not {"tensorflow", "numpy"} & set(sys.modules)
"""


def test_flags_and_errors_name_the_command(root, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    usage, _, rest = done.stdout.partition("status 0\n")
    assert "Learn a WordPiece vocabulary" in usage and "--vocab_size=N" in usage
    assert "--words_file" not in usage  # of another command
    assert rest == "status 1\n"
    assert done.stderr == "bert-tf vocab learn: error: --input_file: no file matches none.txt\n"
    assert not os.listdir(tmp_path)
