"""Sizes and record counts of files: side files, counting, and changed files."""

import numpy as np
import pytest

from bert_tf.data import tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files


def write(path, count, size=10):
    """Write `count` records to a file; return its path."""
    path.write_bytes(tfrecord.frame_records([bytes([i % 256]) * size for i in range(count)]))
    return str(path)


@pytest.fixture
def shards(tmp_path):
    """Three shards with 0, 3 and 2 records, and their sizes."""
    counts = (0, 3, 2)
    paths = [write(tmp_path / f"x-{i:05d}-of-00003", n) for i, n in enumerate(counts)]
    return paths, tfrecord.sizes(paths)


def test_counting_a_truncated_file_is_an_error(tmp_path):
    path = tmp_path / "x"
    write(path, 2, size=20)
    assert tfrecord.count_records([str(path), write(tmp_path / "empty", 0)]) == [2, 0]
    data = path.read_bytes()
    for damaged in (data[:-1], data[:-20], data[:-51], b"not a TFRecord file"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x: cannot be read"):
            tfrecord.count_records([str(path)])


def test_shards_share_a_side_file_with_their_counts(shards, tmp_path):
    paths, sizes = shards
    other = write(tmp_path / "other.tfrecord", 4)
    tfrecord.write_counts({**dict(zip(paths, (0, 3, 2), strict=True)), other: 4})
    names = {path.name for path in tmp_path.glob("*.json")}
    assert names == {"x.counts.json", "other.tfrecord.counts.json"}
    both = [other, *reversed(paths)]
    assert tfrecord.read_counts(both, tfrecord.sizes(both)) == [4, 2, 3, 0]
    assert tfrecord.read_counts([other, "y"], [sizes[0], 7]) is None
    # A glob for the records does not match the side file.
    assert files.expand(f"{tmp_path}/x*,{tmp_path}/o*", "input_file") == [*paths, other]


def test_side_file_of_other_data_is_ignored(shards, tmp_path, caplog):
    paths, _ = shards
    tfrecord.write_counts(dict(zip(paths, (0, 3, 2), strict=True)))
    write(tmp_path / "x-00002-of-00003", 5)
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths)) is None
    (tmp_path / "x.counts.json").write_text("[1]")
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths)) is None
    assert "x.counts.json is ignored" in caplog.text


def test_a_side_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    """Complete shards may be in a read-only folder, and the user may have a file of that name."""
    (tmp_path / "x.counts.json").mkdir()
    (tmp_path / "y.counts.json").write_text("[1]")
    tfrecord.write_counts({write(tmp_path / name, 1): 1 for name in "xy"})
    assert "x.counts.json: cannot be" in caplog.text and "y.counts.json: the JSON" in caplog.text
    assert (tmp_path / "y.counts.json").read_text() == "[1]"


def test_counts_are_saved_by_path_and_read_before_side_files(tmp_path):
    paths = []
    for name in "ab":
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name / "same", ord(name) - 90))
    sizes, cache = tfrecord.sizes(paths), str(tmp_path / "run" / "records.counts.json")
    assert tfrecord.read_counts(paths, sizes, cache) is None
    tfrecord.save_counts(cache, dict(zip(paths, (7, 8), strict=True)))
    assert tfrecord.read_counts(paths, sizes, cache) == [7, 8]
    write(tmp_path / "a" / "same", 1)
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths), cache) is None


def test_identity_depends_on_names_sizes_and_order_but_not_on_folders():
    first = tfrecord.identity(["a/x", "a/y"], [1, 2])
    assert first[:2] == [2, 3]
    assert 0 <= first[2] < 2**63
    assert tfrecord.identity(["b/x", "b/y"], np.array([1, 2])) == first
    for names, sizes in ((["a/y", "a/x"], [2, 1]), (["a/x", "a/y"], [2, 1]), (["a/x"], [3])):
        assert tfrecord.identity(names, sizes)[2] != first[2]
