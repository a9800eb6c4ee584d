"""The newcomer's script: the whole path with next to no training, and how it refuses and fails."""

import os
import re
import subprocess
import sys

import pytest

from bert_tf import toy_corpus


def run(root, folder, program, code=0):
    """Runs `program` with quickstart imported and its flags parsed."""
    start = f"import quickstart as q, sys; q.FLAGS(['q', '--output_dir={folder}']); "
    result = subprocess.run(
        [sys.executable, "-c", start + program], cwd=root, capture_output=True, text=True
    )
    assert result.returncode == code, result.stderr
    return result


@pytest.mark.slow  # the README's first command does the same, and is run for every issue
def test_whole_path_with_two_steps(root, tmp_path):
    folder = tmp_path / "made"
    run(root, folder, "q.FLAGS.num_train_steps = 2; q.main()")
    assert sorted(os.listdir(folder)) == [
        "bert_config.json",
        "classifier",
        "classifier_without",
        "corpus.tfrecord",
        "export",
        "heldout.tfrecord",
        "made_by_quickstart.txt",
        "pretrained",
        "results.txt",
        "text",
        "untrained",
        "vocab.txt",
    ]
    table = (folder / "results.txt").read_text()
    assert len(re.findall(r"\d %", table)) == 6 + len(toy_corpus.TYPED)
    for text in toy_corpus.TYPED:
        assert text in table


def test_makes_anew_only_its_own_folder(root, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    run(root, ours, "q.make_folder(q.FLAGS.output_dir)")
    (ours / "text").mkdir()
    (ours / "text" / "old.txt").write_text("old")
    run(root, ours, "q.make_folder(q.FLAGS.output_dir)")
    assert os.listdir(ours) == ["made_by_quickstart.txt"]
    for path in (theirs, theirs / "thesis.txt"):
        result = subprocess.run(
            [sys.executable, str(root / "quickstart.py"), f"--output_dir={path}"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 1 and "--output_dir" in result.stderr
        assert "Traceback" not in result.stderr
    assert (theirs / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("script", ["gone.py", "-m gone"])
def test_a_failing_station_is_named(root, tmp_path, script):
    result = run(root, tmp_path, f"q.station('The third', {script!r}, flag=1)", code=1)
    last = result.stderr.splitlines()[-1]
    assert f"the station 'The third' failed: {script} ended with exit status" in last
    assert "--flag=1" in result.stdout


def test_never_imports_tensorflow_itself(root, tmp_path):
    run(root, tmp_path, "assert 'tensorflow' not in sys.modules")
