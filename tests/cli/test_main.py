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


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_all_commands(run_main, arguments):
    status, out, err = run_main(*arguments)
    assert (status, err) == (0, "")
    for name, (_, description) in main.COMMANDS.items():
        assert f"  {name} " in out and description in out


@pytest.mark.parametrize("arguments", [["vocab"], ["vocab", "--help"]])
def test_group_lists_its_commands(run_main, arguments):
    status, out, err = run_main(*arguments)
    assert (status, err) == (0, "")
    listed = [line.split("  ")[1] for line in out.splitlines() if line.startswith("  ")]
    assert listed == ["vocab learn", "vocab add"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["train", "--x=1"], "train"),
        (["vocab", "unlearn"], "vocab unlearn"),
        (["--vocab_file=x"], "--vocab_file=x"),
        (["learn"], "learn"),
    ],
)
def test_unknown_command(run_main, arguments, name):
    status, out, err = run_main(*arguments)
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith("bert-tf: error: ") and repr(name) in err
    assert "vocab learn" in err  # the commands that exist


@pytest.mark.parametrize("name", main.COMMANDS)
def test_each_command_gets_its_arguments(run_main, monkeypatch, name):
    calls = []
    monkeypatch.setattr(main, "run", lambda *arguments: calls.append(arguments))
    run_main(*name.split(), "--model=x", "vocab")
    assert calls == [(name, ["--model=x", "vocab"])]


@pytest.mark.parametrize("name", main.COMMANDS)
def test_each_command_has_a_module_with_help(load_scripts, name):
    load_scripts(f"bert-tf {name}")
    module = sys.modules[f"bert_tf.cli.{main.COMMANDS[name][0]}"]
    assert callable(module.main) and len(module.__doc__) > 20


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
