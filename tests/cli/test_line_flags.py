"""Lines that are piped in and answers that are printed, of a model that says what it is asked."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import bert_tf
from bert_tf.serving.rows import BasePredictor


class Echo(BasePredictor):
    def _run(self, columns):
        import numpy as np

        return {"echo": np.array(columns["text"], object)}


def main():
    bert_tf.cli.lines.check_line_flags()
    bert_tf.cli.lines.answer_lines(Echo(("text",), 0, {}, 32), "echo")


bert_tf.cli.lines.define_line_flags()
bert_tf.cli.flags.run(main, needs_tensorflow=False)
"""


@pytest.fixture
def start(root, tmp_path):
    """Starts the program above with these options of `subprocess.Popen`."""
    (tmp_path / "echo.py").write_text(PROGRAM)

    def start(environment=(), **options):
        environment = {**os.environ, "PYTHONPATH": str(root), **dict(environment)}
        command = [sys.executable, str(tmp_path / "echo.py")]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, env=environment, **options)

    return start


def test_a_pipe_that_does_not_block(start):
    """It has nothing now and then, which is not its end."""
    there, here = os.pipe()
    os.set_blocking(there, False)
    with start(stdin=there) as process:
        os.close(there)
        for text in ("one", "two"):
            os.write(here, f"{text}\n".encode())
            assert json.loads(process.stdout.readline()) == {"echo": text}
        os.write(here, b"three")
        os.close(here)
        assert json.loads(process.stdout.read()) == {"echo": "three"}
        assert process.wait(60) == 0 and not process.stderr.read()


def test_bytes_are_utf_8_whatever_the_locale(start):
    with start({"PYTHONIOENCODING": "latin-1"}.items(), stdin=subprocess.PIPE) as process:
        out, said = process.communicate("5 \u20ac\n".encode() + b"a\n\xffb\nc\xff\n")
    assert process.returncode == 0, said
    assert [json.loads(line)["echo"] for line in out.decode().splitlines()] == [
        "5 \u20ac", "a", "b", "c"
    ]  # fmt: skip
    assert said.decode() == (
        "warning: what is piped in: 2 lines are not UTF-8, the first is line 3; bytes at fault "
        "are left out\n"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_answers_that_cannot_be_printed(start):
    with open("/dev/full", "wb") as full:
        with start(stdin=subprocess.PIPE, stdout=full) as process:
            said = process.communicate(b"a\n")[1].decode()
        assert process.returncode == 1
        assert said == "echo.py: error: the answers cannot be printed (No space left on device)\n"
    with start(stdin=subprocess.PIPE, preexec_fn=lambda: os.close(1)) as process:
        said = process.communicate(b"a\n")[1].decode()
    assert process.returncode == 1 and "--output_file must be given: nothing can be pr" in said
