"""Lines from standard input are answered on standard output, by a model that echoes its input."""

import json
import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import bert_tf
from bert_tf.cli import flags, lines


class Echo:
    inputs = ("text",)

    def read(self, line, as_json):
        return {"text": line}

    def __call__(self, rows):
        return [{"echo": row["text"]} for row in rows]


def main():
    lines.check_line_flags()
    lines.answer_lines(Echo(), "echo")


lines.define_line_flags()
flags.run(main, needs_tensorflow=lambda: False)
"""


@pytest.fixture
def start(root, tmp_path):
    """A function that starts the program above with `subprocess.Popen` options."""
    (tmp_path / "echo.py").write_text(PROGRAM)

    def start(environment=(), **options):
        environment = {**os.environ, "PYTHONPATH": str(root), **dict(environment)}
        command = [sys.executable, str(tmp_path / "echo.py")]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, env=environment, **options)

    return start


def test_lines_are_answered_immediately_until_ctrl_c(start, request):
    # Background processes of a shell ignore Ctrl-C, and child processes inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with start(stdin=subprocess.PIPE) as process:
        for text in ("one", "two"):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"echo": text}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"echo.py: interrupted\n"


def test_a_non_blocking_pipe(start):
    """A pipe that is empty for a while is not at its end."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with start(stdin=read_end) as process:
        os.close(read_end)
        for text in ("one", "two"):
            os.write(write_end, f"{text}\n".encode())
            assert json.loads(process.stdout.readline()) == {"echo": text}
        os.write(write_end, b"three")
        os.close(write_end)
        assert json.loads(process.stdout.read()) == {"echo": "three"}
        assert process.wait(60) == 0 and not process.stderr.read()


def test_bytes_are_utf_8_whatever_the_locale(start):
    with start({"PYTHONIOENCODING": "latin-1"}, stdin=subprocess.PIPE) as process:
        out, stderr = process.communicate("5 \u20ac\n".encode() + b"a\n\xffb\nc\xff\n\n")
    assert process.returncode == 0, stderr
    assert [json.loads(line)["echo"] for line in out.decode().splitlines()] == [
        "5 \u20ac", "a", "b", "c", ""
    ]  # fmt: skip
    invalid, empty = stderr.decode().splitlines()
    assert invalid.startswith("warning: standard input: 2 lines") and "line 3" in invalid
    assert empty == "warning: lines with an empty text: 1, the first: line 5: text is empty"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full does not exist")
def test_answers_that_cannot_be_printed(start):
    with open("/dev/full", "wb") as full:
        with start(stdin=subprocess.PIPE, stdout=full) as process:
            stderr = process.communicate(b"a\n")[1].decode()
        assert process.returncode == 1
        assert stderr.startswith("echo.py: error: cannot write to standard output (No space")
    with start(stdin=subprocess.PIPE, preexec_fn=lambda: os.close(1)) as process:
        stderr = process.communicate(b"a\n")[1].decode()
    assert process.returncode == 1
    (message,) = stderr.splitlines()
    assert message.startswith("echo.py: error: --output_file")
