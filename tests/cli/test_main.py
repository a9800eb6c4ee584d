"""The `bert-tf` command: subcommands, their flags and errors."""

import sys

import pytest

from bert_tf import __main__ as main


@pytest.fixture
def run_main(monkeypatch, capsys):
    """A function that runs `bert-tf` and returns (exit status, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bert-tf", *arguments])
        status = main.main()
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("arguments", ["", "help", "--help", "-h", "vocab", "vocab --help"])
def test_help_lists_commands(run_main, arguments):
    status, out, err = run_main(*arguments.split())
    assert (status, err) == (0, "")
    listed = [line[2:15].rstrip() for line in out.splitlines() if line.startswith("  ")]
    expected = ["vocab learn", "vocab add"] if "vocab" in arguments else list(main.COMMANDS)
    assert listed == expected


@pytest.mark.parametrize("name", ["train", "vocab unlearn", "--vocab_file=x", "learn"])
def test_unknown_command(run_main, name):
    status, out, err = run_main(*name.split(), "--x=1")
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith("bert-tf: error: ") and repr(name) in err
    assert "vocab learn" in err  # the commands that exist
