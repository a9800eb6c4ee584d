"""Running out of memory is reported in one sentence."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("error", ["MemoryError('Unable to allocate 9 TiB')", "MemoryError()"])
def test_out_of_memory(root, error):
    code = f"""
from bert_tf.cli import flags
def main():
    raise {error}
flags.run(main, needs_tensorflow=False)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("-c: error: out of memory (")
