"""What `pip install .` puts into an environment: the library, its data, and every script."""

import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """A folder with what a wheel holds, installed without the sources at hand."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests",
                                      "docs", "site", "benchmarks", "*_output")  # fmt: skip
    shutil.copytree(root, folder / "source", ignore=unwanted)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
               "--no-build-isolation", f"--target={folder}/there", f"{folder}/source"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / "source")
    return folder / "there"


def test_all_files_of_the_library_are_in_it(root, installed):
    def files(folder):
        found = (path.relative_to(folder) for path in (folder / "bert_tf").rglob("*"))
        return {path for path in found if path.suffix not in ("", ".pyc")}

    assert files(installed) == files(root)
    scripts = {path.name for path in root.glob("*.py")} - {"setup.py"}
    assert {path.name for path in (installed / "bin").glob("*.py")} == scripts


def test_scripts_and_data_are_found(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*command):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    # The tokenizer's table is there, or this would not go.
    (tmp_path / "text.txt").write_text("a fine inn\n" * 9)
    run(installed / "bin" / "-m bert_tf vocab learn", "--input_file=text.txt",
        "--vocab_file=vocab.txt", "--vocab_size=200")  # fmt: skip
    read = "import bert_tf; bert_tf.FullTokenizer('vocab.txt'); print(bert_tf.__file__)"
    assert run("-c", read).startswith(str(installed))
