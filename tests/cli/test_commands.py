"""Scripts run from Python, and failures of whole processes."""

import os
import shlex
import sys

import pytest

import bert_tf
from bert_tf import commands
from tests.common import python_process, run_python


def test_run_prints_command_and_output(tmp_path, capsys):
    script = tmp_path / "my script.py"
    script.write_text("import sys; print('out', *sys.argv[1:]); print('err', file=sys.stderr)")
    commands.run(str(script), output_dir="my folder", do_train=True)
    command, _, output = capsys.readouterr().out.partition("\n\n")
    words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    assert words[0] == "python" and words[1].endswith("my script.py")
    assert words[2:] == ["--output_dir=my folder", "--do_train"]
    # Scripts log to standard error.
    assert set(output.splitlines()) == {"out --output_dir=my folder --do_train", "err"}


def test_failing_script_is_an_error(monkeypatch, root, capsys):
    monkeypatch.chdir(root)
    with pytest.raises(bert_tf.UserError, match=r"^run_ner\.py exited with status 1$"):
        commands.run("run_ner.py", help="?")
    with pytest.raises(bert_tf.UserError, match="exited with status"):
        commands.run("gone.py", flag=True)
    assert "--flag\n" in capsys.readouterr().out


def test_output_is_inherited_outside_of_notebooks(tmp_path, root):
    """The script writes directly to the terminal."""
    program = "from bert_tf import commands; commands.run('-m timeit', number=1, help=True)"
    printed = run_python("-c", program, cwd=tmp_path, PYTHONPATH=str(root))
    command = "$ python -m timeit \\\n    --number=1 \\\n    --help\n\n"
    assert printed.startswith(command)
    assert "-n/--number" in printed


@pytest.mark.parametrize(("level", "end"), [("2", "raise ImportError('no wheel')"), ("0", "")])
def test_start_up_messages(tmp_path, level, end):
    """At level 0 they are shown, and other lines always."""
    line = "I0000 00:00:17.1  22 port.cc:153] oneDNN\\n"
    (tmp_path / "tensorflow.py").write_text(
        f"import os\nos.write(2, b'{line}F0000 no AVX\\nhalf a')\n{end}\n"
        "class config: list_physical_devices = print"
    )
    done = python_process(
        "-c", "import bert_tf.cli.tensorflow_start as x; x.import_tensorflow()",
        TF_CPP_MIN_LOG_LEVEL=level, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )  # fmt: skip
    assert bool(done.returncode) == ("no wheel" in done.stderr) == bool(end)
    assert done.stderr.partition("F0000 no AVX\nhalf a")[0] == (line[:-2] + "\n") * (level == "0")


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError('Unable to allocate 9 TiB')",
        "MemoryError()",
        # As JAX raises it.
        "RuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 17592186044416 bytes.')",
    ],
)
def test_out_of_memory(root, error):
    code = f"""
from bert_tf.cli import flags
def main():
    raise {error}
flags.run(main, needs_tensorflow=lambda: False)
"""
    done = python_process("-c", code, cwd=root)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("-c: error: out of memory (")
