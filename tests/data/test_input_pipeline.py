"""Batches: every record in its turn, the same again for the same seed, wrong records named."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY
from test_scripts import WORDS, run

from bert_tf.data import input_pipeline, records
from bert_tf.errors import UserError

SCHEMA = {
    "input_ids": records.Feature("int64", "S"),
    "weights": records.Feature("float32", "P"),
    "label_ids": records.Feature("int64", None),
}
LENGTHS = {"S": 4, "P": 2}


def _write(path, numbers):
    """A file of records that are known by the number in `label_ids`."""
    with records.writing([str(path)], SCHEMA) as write:
        for number in numbers:
            ids = np.arange(4) + number
            write({"input_ids": ids, "weights": np.ones(2, "float32"), "label_ids": number})
    return str(path)


@pytest.fixture
def paths(tmp_path):
    """Five files with the records 0 to 59, twelve each."""
    return [_write(tmp_path / f"{i}.tfrecord", range(12 * i, 12 * i + 12)) for i in range(5)]


def _training(paths, batches, seed=0, first_step=0, batch_size=4):
    data = input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, batch_size, seed)
    batches = data.batches(first_step).take(batches)
    return [batch["label_ids"].numpy().tolist() for batch in batches]


def _flat(batches):
    return [number for batch in batches for number in batch]


def test_training_takes_every_record_once_an_epoch_in_another_order(paths):
    numbers = _flat(_training(paths, 45))
    epochs = [numbers[:60], numbers[60:120], numbers[120:]]
    for epoch in epochs:
        assert sorted(epoch) == list(range(60))
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_training_shuffles_the_records_of_a_file(paths):
    first, second = np.reshape(_flat(_training(paths[:1], 6)), (2, 12))
    assert first.tolist() != sorted(first)
    assert first.tolist() != second.tolist()
    # Neighbours in the file are no neighbours any more, over the files too.
    order = _flat(_training(paths, 15))
    assert sum(abs(a - b) == 1 for a, b in itertools.pairwise(order)) < 20


def test_training_is_known_by_its_seed(paths):
    assert _training(paths, 30, seed=3) == _training(paths, 30, seed=3)
    assert _training(paths, 30, seed=3) != _training(paths, 30, seed=4)


def test_training_shuffles_in_blocks_over_files_in_another_order(paths, monkeypatch):
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", 1)  # shows the order of reading
    order = [number // 12 for number in _flat(_training(paths, 30))]
    first, second = order[:60:12], order[60::12]
    assert sorted(first) == sorted(second) == list(range(5))
    assert first != second
    assert order == [number for number in first + second for _ in range(12)]


@pytest.mark.parametrize("block", [1, 7, 25, 60, 1000])
@pytest.mark.parametrize("first_step", [1, 7, 15, 22])
def test_training_goes_on_where_the_whole_run_would_be(paths, first_step, block, monkeypatch):
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", block)
    # 60 records do not go into batches of 8: the epochs run into each other.
    whole = _training(paths, 30, seed=5, batch_size=8)
    rest = _training(paths, 30 - first_step, seed=5, first_step=first_step, batch_size=8)
    assert rest == whole[first_step:]


def test_the_files_of_a_step_are_known(paths, monkeypatch):
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", 7)
    data = input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, 4, 3)
    for step, numbers in enumerate(_training(paths, 40, seed=3)):
        if step % 13 == 0:
            assert data.files_of(step) == sorted({paths[number // 12] for number in numbers})


@pytest.mark.parametrize(("workers", "each"), [(1, 2), (2, 1), (2, 2), (4, 1)])
def test_replicas_get_their_rows_of_a_global_batch(paths, workers, each):
    whole = _training(paths, 6, batch_size=8)
    shares = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * each)
        data = input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, 8, 0)
        batches = data.batches(0, context).take(6 * each)
        shares.append([batch["label_ids"].numpy().tolist() for batch in batches])
    for step in range(6):
        rows = [share[step * each + i] for share in shares for i in range(each)]
        assert _flat(rows) == whole[step]
        assert {len(row) for row in rows} == {8 // (workers * each)}


def test_shapes_and_types(paths):
    for dataset in (
        input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, 8, 0).batches(),
        input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8).batches(),
    ):
        spec = dict(dataset.element_spec)
        spec.pop("is_real_example", None)
        assert spec == {
            "input_ids": tf.TensorSpec((8, 4), tf.int32),
            "weights": tf.TensorSpec((8, 2), tf.float32),
            "label_ids": tf.TensorSpec((8,), tf.int32),
        }
    assert dataset.element_spec["is_real_example"].shape == (8,)


def test_evaluation_fills_up_the_last_batch(paths):
    batches = list(input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8).batches())
    assert len(batches) == 8  # 60 records
    numbers = np.concatenate([batch["label_ids"] for batch in batches])
    real = np.concatenate([batch["is_real_example"] for batch in batches])
    np.testing.assert_array_equal(numbers, [*range(60), 56, 56, 56, 56])
    np.testing.assert_array_equal(real, [1] * 60 + [0] * 4)


def test_evaluation_of_no_more_batches_than_asked_for(paths):
    batches = list(
        input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8, max_batches=2).batches()
    )
    assert [batch["label_ids"].numpy().tolist() for batch in batches] == [
        list(range(8)),
        list(range(8, 16)),
    ]
    assert (
        len(
            list(
                input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8, max_batches=100).batches()
            )
        )
        == 8
    )


def test_evaluation_keeps_the_marks_of_the_records(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    schema = {"x": records.Feature("int64", 1), "is_real_example": records.Feature("int64", None)}
    with records.writing([path], schema) as write:
        for mark in (1, 0, 1):
            write({"x": [5], "is_real_example": mark})
    (batch,) = input_pipeline.EvaluationInput([path], schema, {}, 4).batches()
    np.testing.assert_array_equal(batch["is_real_example"], [1, 0, 1, 0])


# What is wrong with records, as the loop meets it: in a function on the devices, after good ones.

LONG = {"S": 8, "P": 2}


def _good(schema):
    values = {}
    for name, (dtype, length) in schema.items():
        values[name] = np.zeros(() if length is None else LONG.get(length, length), dtype)
    return values


def _loop(path, schema, limits=None, strategy=None):
    """Twenty steps, as `training.loop` makes them."""
    strategy = strategy or tf.distribute.OneDeviceStrategy("/cpu:0")
    data = input_pipeline.TrainingInput([path], schema, LONG, 4, 0, limits)

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
    """All batches one by one, as evaluation and prediction take them."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    data = input_pipeline.EvaluationInput([path], schema, LONG, 4, limits=limits)
    with records.naming_bad_records([path]):
        return list(strategy.distribute_datasets_from_function(data.batches))


def _with_last(path, schema, last):
    """Six good records, and `last`: values, or the bytes of a record."""
    good = records.serialize(schema, _good(schema))
    if not isinstance(last, bytes):
        last = records.serialize(schema, last)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in [good] * 6 + [last]:
            writer.write(record)
    return str(path)


OUT_OF_RANGE = {
    "id": ("input_ids", TINY.vocab_size, TINY.vocab_size - 1, "vocab_size in --bert_config_file"),
    "negative": ("input_ids", -1, TINY.vocab_size - 1, "vocab_size in --bert_config_file"),
    # As an int32 it would be 0.
    "huge": ("input_ids", 2**32, TINY.vocab_size - 1, "vocab_size in --bert_config_file"),
    "mask": ("input_mask", 2, 1, None),
    "segment": ("segment_ids", 2, 1, "type_vocab_size in --bert_config_file"),
    "position": ("masked_lm_positions", 8, 7, "--max_seq_length"),
    "masked": ("masked_lm_ids", 999, TINY.vocab_size - 1, "vocab_size in --bert_config_file"),
    "next": ("next_sentence_labels", 2, 1, None),
    "label": ("label_ids", 3, 2, "the number of labels"),
}


@pytest.mark.parametrize(
    ("name", "value", "most", "source"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE
)
def test_values_that_no_model_has_are_named(name, value, most, source, tmp_path):
    schema = records.CLASSIFICATION if name == "label_ids" else records.PRETRAINING
    limits = records.limits(schema, TINY, LONG, num_labels=3)
    values = _good(schema)
    values[name] = np.full_like(values[name], 0)
    values[name][... if values[name].ndim == 0 else -1] = value
    path = _with_last(tmp_path / "x.tfrecord", schema, values)
    because = f" because of {source}" if source else ""
    message = f"x.tfrecord: a record has {value} in {name}, 0 to {most} was expected{because}"
    with pytest.raises(UserError) as caught:
        _predict(path, schema, limits)
    assert str(caught.value).endswith(message)
    with pytest.raises(UserError) as caught:
        _loop(path, schema, limits)
    assert str(caught.value).endswith(message)


def test_the_largest_values_are_allowed(tmp_path):
    schema = {**records.PRETRAINING, "label_ids": records.Feature("int64", None)}
    limits = records.limits(schema, TINY, LONG, num_labels=3)
    assert set(schema) - set(limits) == {"masked_lm_weights"}
    values = {name: np.full_like(v, limits.get(name, 1) - 1) for name, v in _good(schema).items()}
    path = _with_last(tmp_path / "x.tfrecord", schema, values)
    assert len(_predict(path, schema, limits)) == 2
    assert _loop(path, schema, limits) > 0


def _example(**features):
    example = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(example.features.feature[name], kind).value.extend(values)
    return example.SerializeToString()


WRONG_RECORDS = {
    "short": (
        _example(input_ids=[1] * 5),
        "input_ids of a record has length 5, 8 was expected because --max_seq_length=8",
    ),
    "long": (
        _example(input_ids=[1] * 9),
        "input_ids of a record has length 9, 8 was expected because --max_seq_length=8",
    ),
    "float": (_example(input_ids=[1.0] * 8), "input_ids of a record is float, int64 was expected"),
    "other": (_example(something=[1]), "a record lacks input_ids"),
    "text": (b"a line of text", "a record is not a tf.train.Example message"),
    "bytes": (b"\xff\xfe\xff", "a record is not a tf.train.Example message"),
}


@pytest.mark.parametrize(("last", "message"), WRONG_RECORDS.values(), ids=WRONG_RECORDS)
@pytest.mark.parametrize("run", [_loop, _predict])
def test_a_later_record_of_another_kind_is_named(run, last, message, tmp_path):
    schema = {"input_ids": records.Feature("int64", "S")}
    path = _with_last(tmp_path / "x.tfrecord", schema, last)
    records.check_lengths(path, schema, LONG)  # the first one is right
    with pytest.raises(UserError) as caught:
        run(path, schema)
    assert str(caught.value).endswith(f"x.tfrecord: {message}")


DAMAGES = {
    "cut": (lambda data: data[: len(data) // 2 + 20], r"truncated record at \d+"),
    "changed": (lambda data: data[:-30] + b"x" * 30, r"corrupted record at \d+"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("replicas", [1, 2])
def test_damage_met_inside_the_loop_is_said(damage, said, replicas, tmp_path):
    schema = {"input_ids": records.Feature("int64", "S")}
    path = tmp_path / "x.tfrecord"
    _with_last(path, schema, _good(schema))
    path.write_bytes(damage(path.read_bytes()))
    devices = [f"/cpu:{i}" for i in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices)
    message = rf"x\.tfrecord: a record is damaged or cut off \({said}"
    with pytest.raises(UserError, match=message) as caught:
        _loop(str(path), schema, strategy=strategy)
    assert "Graph execution" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reading_leaves_other_errors_alone():
    ids = tf.constant([9])
    with pytest.raises(tf.errors.InvalidArgumentError), records.naming_bad_records(["x"]):
        tf.gather(tf.zeros(3), ids)
    with pytest.raises(UnicodeDecodeError), records.naming_bad_records(["x"]):
        b"\xff".decode()


# The scripts.


def test_output_that_cannot_be_written_is_found_before_the_text_is_read(root, tmp_path):
    (tmp_path / "text").write_text("a b c\nd e\n\nf g\nh i j\n")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    flags = [f"--input_file={tmp_path}/text", f"--vocab_file={tmp_path}/vocab.txt"]
    flags.append(f"--output_file={tmp_path}/a,{tmp_path}/text/b")  # a folder that is a file
    said = run(root, "create_pretraining_data.py", *flags, code=1).stderr.splitlines()
    assert len(said) == 1
    assert f"--output_file: {tmp_path}/text/b cannot be written" in said[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text", "vocab.txt"]


def test_run_pretraining_names_ids_that_the_model_lacks(root, tmp_path):
    values = _good(records.PRETRAINING)
    values["input_ids"][3] = TINY.vocab_size
    path = _with_last(tmp_path / "x.tfrecord", records.PRETRAINING, values)
    (tmp_path / "config.json").write_text(TINY.to_json_string())
    done = run(
        root,
        "run_pretraining.py",
        f"--input_file={path}",
        f"--bert_config_file={tmp_path}/config.json",
        f"--output_dir={tmp_path}/run",
        "--max_seq_length=8",
        "--max_predictions_per_seq=2",
        "--train_batch_size=4",
        "--do_train",
        code=1,
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"run_pretraining.py: error: {path}: a record has {TINY.vocab_size} in input_ids, "
        f"0 to {TINY.vocab_size - 1} was expected because of vocab_size in --bert_config_file"
    )
