"""The toy corpus is reproducible and balanced, and only sentiment words predict its labels."""

import hashlib
import os
import subprocess
import sys

import pytest

from examples import toy_corpus


@pytest.fixture(scope="module")
def texts():
    return toy_corpus.make()


def test_same_seed_same_bytes(texts):
    # A digest, because the text must also be equal on every version of Python.
    digest = hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()
    assert digest[:16] == "a68697d07495a90f"
    small = {"corpus": 1, "train": 1, "dev": 1, "test": 1}
    assert toy_corpus.make(**small)["heldout"] == texts["heldout"]
    assert toy_corpus.make(seed=1, **small)["heldout"] != texts["heldout"]


def test_module_writes_the_files(tmp_path, root):
    def run(*flags):
        command = [sys.executable, "-m", "examples.toy_corpus", *flags]
        return subprocess.run(command, cwd=root, capture_output=True, text=True)

    done = run(f"--output_dir={tmp_path}/text", "--seed=3")
    assert done.returncode == 0, done.stderr
    names = ["corpus.txt", "dev.tsv", "heldout.txt", "test.tsv", "train.tsv"]
    assert sorted(os.listdir(tmp_path / "text")) == names
    assert all(name in done.stderr for name in names)
    texts = toy_corpus.make(seed=3)
    for name in names:
        assert (tmp_path / "text" / name).read_text() == texts[name.partition(".")[0]]
    failed = run()
    assert failed.returncode == 1
    assert "output_dir" in failed.stderr and "Traceback" not in failed.stderr
