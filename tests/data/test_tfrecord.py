"""Records written without TensorFlow equal TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import records, tfrecord
from tests.data.record_helpers import serialized_by_tensorflow


def test_tensorflow_reads_the_files(tmp_path):
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 2000, *rng.integers(1, 4000, 50).tolist()]
    data = [rng.integers(0, 256, size).astype(np.uint8).tobytes() for size in sizes]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(
        tfrecord.frame_records(data[:7])
        + tfrecord.frame_records([])
        + tfrecord.frame_records(data[7:])
    )
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == data


def test_varints():
    rows = np.array([[0, 1, 127, 128, 300], [16383, 16384, 2**21, 2**28 - 1, 0]])
    for more in (rows, rows * 2, rows * 2**27):
        expected = [b"".join(map(tfrecord.varint, row)) for row in more.tolist()]
        assert tfrecord.varints(more) == expected
    assert tfrecord.varint(300) == b"\xac\x02"
    for number in (-1, 2**56):
        with pytest.raises(ValueError, match="integers"):
            tfrecord.varints(np.array([[1, number]]))


@pytest.mark.parametrize("most", [100, 30000, 2**40])
def test_examples_are_those_of_tensorflow(most):
    rng = np.random.default_rng(most)
    columns = {
        name: rng.integers(0, most, (7, {"S": 12, "P": 3}.get(length, length)))
        if dtype == "int64"
        else rng.random((7, 3)).astype(np.float32)
        for name, (dtype, length) in records.PRETRAINING.items()
    }
    columns["is_long"] = rng.random((7, 300)) < 0.5
    expected = [
        serialized_by_tensorflow({name: x[row] for name, x in columns.items()}) for row in range(7)
    ]
    assert tfrecord.examples(columns) == expected
