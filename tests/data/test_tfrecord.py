"""Records written without TensorFlow equal those that it writes."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import records, tfrecord
from bert_tf.data.pretraining import compiled


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


@pytest.mark.parametrize("varints", [tfrecord.varints, compiled.varints])
def test_varints(varints):
    rows = np.array([[0, 1, 127, 128, 300], [16383, 16384, 2**21, 2**28 - 1, 0]])
    assert varints(rows) == [b"".join(map(tfrecord.varint, row)) for row in rows.tolist()]
    assert tfrecord.varint(300) == b"\xac\x02"


@pytest.mark.parametrize("varints", [tfrecord.varints, compiled.varints])
@pytest.mark.parametrize("most", [100, 30000])
def test_examples_equal_serialize(most, varints):
    rng = np.random.default_rng(most)
    columns = {
        name: rng.integers(0, most, (7, {"S": 12, "P": 3}.get(length, length)))
        if dtype == "int64"
        else rng.random((7, 3)).astype(np.float32)
        for name, (dtype, length) in records.PRETRAINING.items()
    }
    expected = [
        records.serialize(records.PRETRAINING, {name: x[row] for name, x in columns.items()})
        for row in range(7)
    ]
    assert tfrecord.examples(columns, varints) == expected
