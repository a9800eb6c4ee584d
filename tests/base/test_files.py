"""Files that are written whole or not at all, names of files, and what an error says of them."""

import pytest
import tensorflow as tf
from test_input_pipeline import _write

from bert_tf import errors, files
from bert_tf.errors import UserError


def _no_room(*args):
    raise tf.errors.ResourceExhaustedError(None, None, "failed to allocate memory")


@pytest.mark.parametrize("replacing", [files.replacing, files.replacing_folder])
def test_only_errors_of_writing_are_about_the_file(replacing, tmp_path):
    path = str(tmp_path / "x")
    with pytest.raises(tf.errors.ResourceExhaustedError), replacing(path):
        _no_room()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said(tmp_path):
    # The largest file that this process may write stands for the disk.
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"x: cannot be written \(.*too large"):
            files.write_text(str(tmp_path / "x"), "y" * 100_000)
        with pytest.raises(UserError, match=r"x\.tfrecord: cannot be written \(.*too large"):
            _write(tmp_path / "x.tfrecord", range(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_name_with_the_signs_of_a_pattern_is_a_name(tmp_path):
    for name in ("g[1]", "g1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.tfrecord").write_bytes(b"")
    path = f"{tmp_path}/g[1]/data.tfrecord"
    assert files.expand(path, "input_file") == [path]
    assert files.expand(f"{tmp_path}/g[12]/*.tfrecord", "input_file") == [
        f"{tmp_path}/g1/data.tfrecord"
    ]


def test_check_writable(tmp_path):
    files.check_writable(str(tmp_path / "new" / "x"), "output_file")
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--output_file: .*file/x cannot be written \(Not a dir"):
        files.check_writable(str(tmp_path / "file" / "x"), "output_file")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one"),
        ("Graph execution error:\n\nDetected at node A/B defined at (most recent call last):\n"
         '  File "x.py", line 3, in main\nno room [Op:__inference_f_12]', "no room"),
        ("Graph execution error:\n\n2 root error(s) found.\n  (0) DATA_LOSS:  corrupted\n\t [[a]]\n"
         "  (1) DATA_LOSS:  corrupted", "corrupted"),
        ("{{function_node __wrapped__SaveV2_device_/CPU:0}} a.tmp; File too large [Op:SaveV2]",
         "a.tmp; File too large"),
        ("Graph execution error:\n", "Graph execution error:"),
        ("", "ValueError('')"),
    ],
)  # fmt: skip
def test_reason_is_the_line_that_says_what_is_wrong(text, line):
    assert errors.reason(ValueError(text)) == line
