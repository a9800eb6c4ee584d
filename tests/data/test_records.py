"""Records: round trips, equality with TensorFlow's, counts, and errors that name the bad one."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import input_pipeline, records, tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files
from tests.common import TINY
from tests.data.record_helpers import serialized_by_tensorflow, write_examples

SCHEMAS = {
    "pretraining": records.PRETRAINING,
    "classification": records.CLASSIFICATION,
    "regression": records.REGRESSION,
    "multi_label": records.MULTI_LABEL,
    "squad_training": records.SQUAD_TRAINING,
}
LENGTHS = {"S": 8, "P": 3, "L": 4}


def _write(path, schema, count=1):
    rng = np.random.default_rng(0)
    examples = [
        {k: rng.integers(30000, size=x.shape(LENGTHS)).astype(x.dtype) for k, x in schema.items()}
        for _ in range(count)
    ]
    write_examples([str(path)], schema, examples)
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
    with tfrecord.writing(paths) as write:
        for part in ([b"0", b"1", b"2"], [b"3", b"4"]):
            write(part)
    for path, expected in zip(paths, ([b"0", b"2", b"4"], [b"1", b"3"]), strict=True):
        assert list(tf.data.TFRecordDataset(path).as_numpy_iterator()) == expected


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


# Numbers of records, and side files.


def write_file(path, count, size=10):
    """Write `count` records to a file; return its path."""
    path.write_bytes(tfrecord.frame_records([bytes([i % 256]) * size for i in range(count)]))
    return str(path)


@pytest.fixture
def shards(tmp_path):
    """Three shards with 0, 3 and 2 records, and their sizes."""
    counts = (0, 3, 2)
    paths = [write_file(tmp_path / f"x-{i:05d}-of-00003", n) for i, n in enumerate(counts)]
    return paths, tfrecord.sizes(paths)


def test_counting_a_truncated_file_is_an_error(tmp_path):
    path = tmp_path / "x"
    write_file(path, 2, size=20)
    assert tfrecord.count_records([str(path), write_file(tmp_path / "empty", 0)]) == [2, 0]
    data = path.read_bytes()
    for damaged in (data[:-1], data[:-20], data[:-51], b"not a TFRecord file"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x: cannot be read"):
            tfrecord.count_records([str(path)])


def test_shards_share_a_side_file_with_their_counts(shards, tmp_path):
    paths, sizes = shards
    other = write_file(tmp_path / "other.tfrecord", 4)
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
    write_file(tmp_path / "x-00002-of-00003", 5)
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths)) is None
    (tmp_path / "x.counts.json").write_text("[1]")
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths)) is None
    assert "x.counts.json is ignored" in caplog.text


def test_a_side_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    """Complete shards may be in a read-only folder, and the user may have a file of that name."""
    (tmp_path / "x.counts.json").mkdir()
    (tmp_path / "y.counts.json").write_text("[1]")
    tfrecord.write_counts({write_file(tmp_path / name, 1): 1 for name in "xy"})
    assert "x.counts.json: cannot be" in caplog.text and "y.counts.json: the JSON" in caplog.text
    assert (tmp_path / "y.counts.json").read_text() == "[1]"


def test_counts_are_saved_by_path_and_read_before_side_files(tmp_path):
    paths = []
    for name in "ab":
        (tmp_path / name).mkdir()
        paths.append(write_file(tmp_path / name / "same", ord(name) - 90))
    sizes, cache = tfrecord.sizes(paths), str(tmp_path / "run" / "records.counts.json")
    assert tfrecord.read_counts(paths, sizes, cache) is None
    tfrecord.save_counts(cache, dict(zip(paths, (7, 8), strict=True)))
    assert tfrecord.read_counts(paths, sizes, cache) == [7, 8]
    write_file(tmp_path / "a" / "same", 1)
    assert tfrecord.read_counts(paths, tfrecord.sizes(paths), cache) is None


def test_fingerprint_depends_on_names_sizes_and_order_but_not_on_folders():
    first = tfrecord.fingerprint(["a/x", "a/y"], [1, 2])
    assert first[:2] == [2, 3]
    assert 0 <= first[2] < 2**63
    assert tfrecord.fingerprint(["b/x", "b/y"], np.array([1, 2])) == first
    for names, sizes in ((["a/y", "a/x"], [2, 1]), (["a/x", "a/y"], [2, 1]), (["a/x"], [3])):
        assert tfrecord.fingerprint(names, sizes)[2] != first[2]


# Errors that name the bad record among good ones, also inside a tf.function.


def _valid_values(schema):
    return {name: np.zeros(x.shape(LENGTHS), x.dtype) for name, x in schema.items()}


def _loop(path, schema, limits=None, strategy=None):
    """Run twenty steps as in the training loop."""
    strategy = strategy or tf.distribute.OneDeviceStrategy("/cpu:0")
    data = input_pipeline.TrainingInput([path], schema, LENGTHS, 4, 0, limits=limits)

    @tf.function
    def run_steps(batches, steps):
        total = tf.constant(0)
        for _ in tf.range(steps):
            values = strategy.run(lambda b: tf.reduce_sum(b["input_ids"]), args=(next(batches),))
            total += strategy.experimental_local_results(values)[0]
        return total

    with records.naming_bad_records([path]):
        return run_steps(
            iter(strategy.distribute_datasets_from_function(lambda c: data.batches(0, c))),
            tf.constant(20),
        ).numpy()


def _predict(path, schema, limits=None):
    """Read all batches as in evaluation and prediction."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    data = input_pipeline.EvaluationInput([path], schema, LENGTHS, 4, limits=limits)
    with records.naming_bad_records([path]):
        return list(strategy.distribute_datasets_from_function(data.batches))


def _write_with_last(path, schema, last):
    """Write six valid records and `last`, values or record bytes; return the path."""
    (valid,) = records.serialize(schema, [_valid_values(schema)])
    if not isinstance(last, bytes):
        last = serialized_by_tensorflow(last)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in [valid] * 6 + [last]:
            writer.write(record)
    return str(path)


VOCAB_CAUSE = "vocab_size in `bert_config_file`"
# Feature, bad value, largest valid value, and the reason for that limit.
OUT_OF_RANGE = {
    "id": ("input_ids", TINY.vocab_size, TINY.vocab_size - 1, VOCAB_CAUSE),
    "negative": ("input_ids", -1, TINY.vocab_size - 1, VOCAB_CAUSE),
    "huge": ("input_ids", 2**32, TINY.vocab_size - 1, VOCAB_CAUSE),  # 0 as an int32
    "segment": ("segment_ids", 2, 1, "type_vocab_size in `bert_config_file`"),
    "position": ("masked_lm_positions", 8, 7, "`max_seq_length`"),
    "next": ("next_sentence_labels", 2, 1, ""),
    "label": ("label_ids", 3, 2, "the number of labels"),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_values_out_of_range_are_named(case, tmp_path):
    name, value, most, cause = OUT_OF_RANGE[case]
    schema = records.CLASSIFICATION if name == "label_ids" else records.PRETRAINING
    limits = records.limits(schema, TINY, LENGTHS, num_labels=3)
    values = _valid_values(schema)
    values[name][... if values[name].ndim == 0 else -1] = value
    path = _write_with_last(tmp_path / "x.tfrecord", schema, values)
    message = rf"x\.tfrecord: .*{name} is out of range, .* 0 to {most}\b.*{cause}.*{value}"
    with pytest.raises(UserError, match=message):
        _predict(path, schema, limits)
    if case in ("id", "label"):  # the other cases differ only in values
        with pytest.raises(UserError, match=message):
            _loop(path, schema, limits)


def test_the_largest_values_are_allowed(tmp_path):
    schema = {**records.PRETRAINING, "label_ids": records.Feature("int64", None)}
    limits = records.limits(schema, TINY, LENGTHS, num_labels=3)
    assert set(schema) - set(limits) == {"masked_lm_weights"}
    values = {
        name: np.full_like(v, limits.get(name, 1) - 1) for name, v in _valid_values(schema).items()
    }
    path = _write_with_last(tmp_path / "x.tfrecord", schema, values)
    assert len(_predict(path, schema, limits)) == 2
    assert _loop(path, schema, limits) > 0


# A record, and what the message names.
WRONG_RECORDS = {
    "short": ({"input_ids": np.ones(5, int)}, r"input_ids.* 5 .*8"),
    "float": ({"input_ids": np.ones(8, "float32")}, "input_ids.* float .*int64"),
    "other": ({"something": np.ones(1, int)}, "input_ids"),
    "text": (b"a line of text", r"a line of text"),
    "bytes": (b"\xff\xfe\xff", r"tf\.train\.Example"),
}


@pytest.mark.parametrize(("last", "message"), WRONG_RECORDS.values(), ids=WRONG_RECORDS)
@pytest.mark.parametrize("run", [_loop, _predict])
def test_later_records_that_do_not_match_the_schema_are_named(run, last, message, tmp_path):
    schema = {"input_ids": records.Feature("int64", "S")}
    path = _write_with_last(tmp_path / "x.tfrecord", schema, last)
    records.check_lengths(path, schema, LENGTHS)  # which reads the first one
    with pytest.raises(UserError, match=rf"x\.tfrecord: .*{message}"):
        run(path, schema)


DAMAGES = {
    "cut": (lambda data: data[: len(data) // 2 + 20], r"truncated record at \d+"),
    "changed": (lambda data: data[:-30] + b"x" * 30, r"corrupted record at \d+"),
}


@pytest.fixture
def collect_garbage():
    """Free the iterators after each test, because a later collection may wait for them."""
    yield
    gc.collect()


@pytest.mark.parametrize(("damage", "reason"), DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("collect_garbage")
def test_damaged_files_are_named(damage, reason, replicas, tmp_path):
    schema = {"input_ids": records.Feature("int64", "S")}
    path = tmp_path / "x.tfrecord"
    _write_with_last(path, schema, _valid_values(schema))
    path.write_bytes(damage(path.read_bytes()))
    devices = [f"/cpu:{i}" for i in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices)
    message = rf"x\.tfrecord: .*{reason}"
    with pytest.raises(UserError, match=message) as caught:
        _loop(str(path), schema, strategy=strategy)
    assert "Graph execution" not in str(caught.value)
    assert "\n" not in str(caught.value)
