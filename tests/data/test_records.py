"""Records: round trips, equality with TensorFlow's, and errors that name file and feature."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import records, tfrecord
from bert_tf.errors import UserError
from tests.data.record_helpers import serialized_by_tensorflow, writing

SCHEMAS = {
    "pretraining": records.PRETRAINING,
    "classification": records.CLASSIFICATION,
    "regression": records.REGRESSION,
    "multi_label": records.MULTI_LABEL,
    "squad": records.SQUAD,
    "squad_training": records.SQUAD_TRAINING,
}
LENGTHS = {"S": 8, "P": 3, "L": 4}


def _example(schema, rng):
    values = {}
    for name, (dtype, length) in schema.items():
        shape = () if length is None else (LENGTHS.get(length, length),)
        values[name] = rng.integers(0, 30000, shape).astype(dtype)
    return values


def _write(path, schema, count=1):
    rng = np.random.default_rng(0)
    examples = [_example(schema, rng) for _ in range(count)]
    with writing([str(path)], schema) as write:
        for values in examples:
            write(values)
    return examples


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_round_trip(schema, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    examples = _write(path, schema, 4)
    records.check_lengths(path, schema, LENGTHS)
    dataset = tf.data.TFRecordDataset(path).batch(4, drop_remainder=True)
    dataset = dataset.map(lambda batch: records.parse(batch, schema, LENGTHS))
    for name, spec in dataset.element_spec.items():
        assert spec.shape.is_fully_defined()
        assert spec.dtype == (tf.float32 if schema[name].dtype == "float32" else tf.int32)
    batch = next(iter(dataset))
    assert batch.keys() == schema.keys()
    for name, tensor in batch.items():
        expected = np.stack([values[name] for values in examples])
        assert tensor.shape == expected.shape
        np.testing.assert_array_equal(tensor, expected)


def test_writing_takes_turns(tmp_path):
    paths = [str(tmp_path / "new" / name) for name in ("a", "b")]
    with writing(paths, {"x": records.Feature("int64", None)}) as write:
        for number in range(5):
            write({"x": number})
    for path, numbers in zip(paths, ([0, 2, 4], [1, 3]), strict=True):
        written = tf.data.TFRecordDataset(path).as_numpy_iterator()
        features = [tf.train.Example.FromString(record).features.feature for record in written]
        assert [feature["x"].int64_list.value[0] for feature in features] == numbers


@pytest.mark.parametrize(
    ("schema", "lengths", "message"),
    [
        ("pretraining", {"S": 16, "P": 3}, "input_ids .* 8, .* 16.*`max_seq_length`"),
        ("pretraining", {"S": 8, "P": 5}, "positions .* 3, .* 5.*`max_predictions_per_seq`"),
        ("classification", {"S": 8}, "label_ids, is_real_example"),
    ],
)
def test_check_lengths_names_the_argument(tmp_path, schema, lengths, message):
    _write(tmp_path / "x.tfrecord", records.PRETRAINING)
    with pytest.raises(UserError, match=rf"x\.tfrecord: .*{message}"):
        records.check_lengths(str(tmp_path / "x.tfrecord"), SCHEMAS[schema], lengths)


def test_check_lengths_of_other_files(tmp_path):
    path = tmp_path / "x.tfrecord"
    _write(path, records.SQUAD)
    record = tfrecord.frame_records([b"\xff\xff\xff not a message"])
    data = path.read_bytes()
    for damaged in (None, b"", b"A line of text.\n" * 9, data[:-6], record):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"x\.tfrecord: "):
            records.check_lengths(str(path), records.SQUAD, {"S": 8})


def test_empty_files_among_others_are_skipped(tmp_path, caplog):
    paths = [str(tmp_path / name) for name in "abcde"]
    for path in paths:
        open(path, "wb").close()
    with pytest.raises(UserError, match="a: the file is empty"):
        records.check(paths, records.SQUAD, {"S": 8})
    _write(paths[2], records.SQUAD)
    with caplog.at_level("INFO", "bert_tf"):
        records.check(paths, records.SQUAD, {"S": 8})
    assert f"4 of 5 files have no records: {paths[0]}, {paths[1]}, {paths[3]} " in caplog.text
    with pytest.raises(UserError, match=r"c: input_ids has length 8, .* 9"):
        records.check(paths, records.SQUAD, {"S": 9})


def test_tensorflow_reads_the_files(tmp_path):
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 2000, *rng.integers(1, 4000, 50).tolist()]
    data = [rng.integers(0, 256, size).astype(np.uint8).tobytes() for size in sizes]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"".join(map(tfrecord.frame_records, (data[:7], [], data[7:]))))
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == data


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
