"""Errors name the bad record among good ones, also inside a tf.function."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import input_pipeline, records
from bert_tf.errors import UserError
from tests.common import TINY
from tests.data.record_helpers import serialized_by_tensorflow

LONG = {"S": 8, "P": 2}


def _valid_values(schema):
    values = {}
    for name, (dtype, length) in schema.items():
        values[name] = np.zeros(() if length is None else LONG.get(length, length), dtype)
    return values


def _loop(path, schema, limits=None, strategy=None):
    """Run twenty steps as in the training loop."""
    strategy = strategy or tf.distribute.OneDeviceStrategy("/cpu:0")
    data = input_pipeline.TrainingInput([path], schema, LONG, 4, 0, limits=limits)

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
    data = input_pipeline.EvaluationInput([path], schema, LONG, 4, limits=limits)
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


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(x, marks=() if x in ("id", "huge", "next", "label") else pytest.mark.slow)
        for x in OUT_OF_RANGE
    ],
)
def test_values_out_of_range_are_named(case, tmp_path):
    name, value, most, cause = OUT_OF_RANGE[case]
    schema = records.CLASSIFICATION if name == "label_ids" else records.PRETRAINING
    limits = records.limits(schema, TINY, LONG, num_labels=3)
    values = _valid_values(schema)
    values[name] = np.full_like(values[name], 0)
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
    limits = records.limits(schema, TINY, LONG, num_labels=3)
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
    "long": ({"input_ids": np.ones(9, int)}, r"input_ids.* 9 .*8"),
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
    records.check_lengths(path, schema, LONG)  # which reads the first one
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
