"""Input pipelines: the order, sharding and padding of records."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import input_pipeline, records, tfrecord
from bert_tf.data.dynamic_masking import DynamicMasking
from tests.data.record_helpers import write_examples

SCHEMA = {
    "input_ids": records.Feature("int64", "S"),
    "weights": records.Feature("float32", "P"),
    "label_ids": records.Feature("int64", None),
}
LENGTHS = {"S": 4, "P": 2}


def _write(path, numbers):
    """Write a record with `label_ids` for each number; return the path."""
    weights = np.ones(2, "float32")
    values = ({"input_ids": np.arange(4) + x, "weights": weights, "label_ids": x} for x in numbers)
    return write_examples([str(path)], SCHEMA, values)


@pytest.fixture
def paths(tmp_path):
    """Five files with twelve records each, numbered 0 to 59."""
    return [_write(tmp_path / f"{i}.tfrecord", range(12 * i, 12 * i + 12)) for i in range(5)]


def _numbers(batches):
    return [batch["label_ids"].numpy().tolist() for batch in batches]


def _training(paths, batches, seed=0, first_step=0, batch_size=4):
    data = input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, batch_size, seed)
    return _numbers(data.batches(first_step).take(batches))


def _flat(batches):
    return [number for batch in batches for number in batch]


def test_training_uses_every_record_once_per_epoch_in_new_order(paths):
    numbers = _flat(_training(paths, 45))
    epochs = [numbers[:60], numbers[60:120], numbers[120:]]
    for epoch in epochs:
        assert sorted(epoch) == list(range(60))
        # Few neighbours in a file stay neighbours.
        assert sum(abs(a - b) == 1 for a, b in itertools.pairwise(epoch)) < 20
    assert len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize(
    "block",
    [pytest.param(x, marks=() if x == 25 else pytest.mark.slow) for x in (1, 7, 25, 60, 1000)],
)
def test_training_resumes_where_the_whole_run_would_be(paths, block, monkeypatch):
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", block)
    # 60 is not a multiple of 8, so some batches span two epochs.
    whole = _training(paths, 30, seed=5, batch_size=8)
    for first_step in (1, 7, 15, 22):
        rest = _training(paths, 30 - first_step, seed=5, first_step=first_step, batch_size=8)
        assert rest == whole[first_step:]


def test_order_is_that_of_earlier_versions(paths, monkeypatch):
    """The batches of a seed, at the start and after a step, never change between versions."""
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", 25)
    first = _training(paths, 2, seed=5, batch_size=8)
    assert first == [[8, 40, 4, 1, 43, 46, 3, 37], [39, 36, 0, 11, 6, 47, 5, 10]]
    resumed = _training(paths, 2, seed=5, batch_size=8, first_step=9)
    assert resumed == [[45, 58, 55, 49, 51, 54, 59, 39], [36, 46, 38, 42, 57, 33, 12, 10]]


def test_resuming_reads_only_the_files_of_the_current_block(tmp_path, monkeypatch):
    """It neither reads earlier files nor counts records."""
    step = 100_030
    monkeypatch.setattr(input_pipeline, "SHUFFLE_BLOCK", 10)
    counts = [i % 5 for i in range(100)]  # 200 records; some files are empty
    paths = [_write(tmp_path / f"x-{i:05d}-of-00100", range(n)) for i, n in enumerate(counts)]
    tfrecord.write_counts(dict(zip(paths, counts, strict=True)))
    data = input_pipeline.TrainingInput(paths, SCHEMA, LENGTHS, 4, 0)
    data.load_counts()
    assert data.counts == counts
    order = tf.random.experimental.stateless_shuffle(
        range(100), tf.random.experimental.stateless_fold_in([0, 0], np.int64(step * 4 // 200))
    ).numpy()
    ends = np.cumsum(np.array(counts)[order])
    first = int(np.searchsorted(ends, step * 4 % 200 // 10 * 10, side="right"))
    # It reads the block of ten records, the next block, and a few files ahead.
    for place, i in enumerate(order):
        if not first <= place < first + 30:
            (tmp_path / f"x-{i:05d}-of-00100").unlink()
    next(iter(data.batches(step)))
    (tmp_path / f"x-{order[first]:05d}-of-00100").unlink()
    with pytest.raises(tf.errors.NotFoundError):
        next(iter(data.batches(step)))


BUCKET_SCHEMA = {"input_mask": records.Feature("int64", "S"), "label_ids": SCHEMA["label_ids"]}


def test_bucketed_batches_have_similar_lengths_in_random_order(tmp_path):
    """96 records with 1 to 40 tokens in random order, in batches of 8."""
    masks = np.arange(40) < np.random.default_rng(0).integers(1, 41, (96, 1))
    values = [{"input_mask": mask, "label_ids": number} for number, mask in enumerate(masks)]
    path = write_examples([str(tmp_path / "x.tfrecord")], BUCKET_SCHEMA, values)

    def batches(first_step=0, bucket=True):
        data = input_pipeline.TrainingInput(
            [path], BUCKET_SCHEMA, {"S": 40}, 8, 5, length_multiple=1, bucket_by_length=bucket
        )
        found = list(data.batches(first_step).take(30 - first_step))
        return [batch["input_mask"].numpy().sum(-1) for batch in found], _numbers(found)

    lengths, numbers = batches()
    epochs = numbers[:12], numbers[12:24]
    assert sorted(_flat(epochs[0])) == sorted(_flat(epochs[1])) == list(range(96))
    assert len({tuple(sorted(batch)) for batch in numbers[:24]}) == 24
    random_lengths, _ = batches(bucket=False)
    padding, random_padding = (
        sum(8 * batch.max() - batch.sum() for batch in x) for x in (lengths, random_lengths)
    )
    assert padding < 0.55 * random_padding
    longest = [batch.max() for batch in lengths[:24]]
    assert 0 < sum(a < b for a, b in itertools.pairwise(longest)) < 23  # not from short to long
    for first_step in (3, 7, 22):  # resuming
        assert batches(first_step)[1] == numbers[first_step:]


def test_buckets_of_several_sequences():
    """Choices and windows count as their longest sequence times the number of sequences."""
    mask = np.array([[[1, 1, 0, 0], [1, 1, 1, 0]], [[1, 1, 1, 1], [0, 0, 0, 0]]])
    schema = {"input_mask": records.Feature("int64", ("W", "S"))}
    serialized = records.serialize(schema, [{"input_mask": x} for x in mask])
    assert records.num_tokens(serialized, schema, {"W": 2, "S": 4}).numpy().tolist() == [6, 4]


@pytest.fixture
def shards(tmp_path):
    """Eight files with 10 to 17 records each; record j of file i has the number 100 * i + j."""
    return [
        _write(tmp_path / f"x-{i:05d}-of-00008", range(100 * i, 100 * i + 10 + i)) for i in range(8)
    ]


def _streams(shards, count=4, **options):
    return input_pipeline.TrainingInput(
        shards, SCHEMA, LENGTHS, 24, 5, num_input_streams=count, **options
    )


@pytest.mark.parametrize(
    ("count", "workers", "replicas", "bucket"),
    [
        (1, 2, 1, False),
        (4, 3, 1, False),
        (4, 2, 2, True),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in [(1, 2, 2, False), (4, 8, 1, True)]),
    ],
)
def test_the_rows_are_the_same_on_any_number_of_hosts(shards, count, workers, replicas, bucket):
    data = _streams(shards, count, bucket_by_length=bucket)
    if bucket:
        data.schema = BUCKET_SCHEMA
        for i, path in enumerate(shards):
            write_examples([path], BUCKET_SCHEMA, (
                {"input_mask": np.arange(4) < j % 4, "label_ids": 100 * i + j}
                for j in range(10 + i)
            ))  # fmt: skip
    whole = _numbers(data.batches().take(6))
    shares = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * replicas)
        shares.append(_numbers(data.batches(2, context).take(4 * replicas)))
    for step in range(4):
        rows = [share[step * replicas + i] for share in shares for i in range(replicas)]
        assert _flat(rows) == whole[step + 2]
        assert {len(row) for row in rows} == {24 // (workers * replicas)}


def test_a_host_reads_only_the_files_of_its_streams(shards):
    """File i belongs to stream i mod 4, which fills a quarter of each batch in its own order."""
    whole = _numbers(_streams(shards).batches().take(12))
    for stream, rows in enumerate(np.split(np.array(whole), 4, axis=1)):
        files = [(i, 10 + i) for i in (stream, stream + 4)]
        numbers = [100 * i + j for i, count in files for j in range(count)]
        assert sorted(rows.ravel()[: len(numbers)]) == numbers  # the first epoch
    assert len({tuple(x // 400 for x in whole[0][i : i + 6]) for i in range(0, 24, 6)}) > 1
    for files in (["0145", "2367"], ["0145", "1256", "2367"]):
        size = 24 // len(files)
        for host, read in enumerate(files):
            data = _streams(shards, counts=[10 + i for i in range(8)])
            data.paths = [x if str(i) in read else "missing" for i, x in enumerate(shards)]
            context = tf.distribute.InputContext(len(files), host, len(files))
            rows = _numbers(data.batches(0, context).take(12))
            assert rows == [batch[host * size : (host + 1) * size] for batch in whole]


def test_masks_of_streams_are_the_same_on_any_number_of_hosts(shards):
    vocab = {"[CLS]": 1000, "[SEP]": 1001, "[MASK]": 1002, "a": 1003, "b": 1004}
    schema = records.pretraining_schema(False, has_masks=False)
    for i, path in enumerate(shards):
        rows = np.arange(40).reshape(10, 4) + 40 * i
        mask = np.ones(4, int)
        values = [{"input_ids": x, "input_mask": mask, "segment_ids": 0 * mask} for x in rows]
        write_examples([path], schema, values)
    data = _streams(shards, masking=DynamicMasking(vocab, LENGTHS, 0.5, 0))
    data.schema = schema
    whole = list(data.batches(3).take(2).as_numpy_iterator())
    contexts = [tf.distribute.InputContext(3, i, 3) for i in range(3)]
    shares = [data.batches(3, x).take(2).as_numpy_iterator() for x in contexts]
    for batch, *parts in zip(whole, *shares, strict=True):
        for name, values in batch.items():
            joined = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(joined, values)


def test_small_files_are_read_in_the_same_order(tmp_path):
    """More files than are read ahead, of different lengths, some of them empty."""
    counts = [3, 0, 2000, *np.random.default_rng(0).integers(0, 5, 97)]
    paths = [_write(tmp_path / str(i), range(n)) for i, n in enumerate(counts)]
    sizes = tfrecord.sizes(paths)
    numbers = [
        _numbers(input_pipeline.TrainingInput(
            paths, SCHEMA, LENGTHS, 500, 0, sizes=x, counts=counts
        ).batches(3).take(4))
        for x in (None, sizes, [*sizes[:-1], 2**30])
    ]  # fmt: skip
    assert numbers[0] == numbers[1] == numbers[2]


def test_evaluation_pads_the_last_batch(paths):
    batches = list(input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8).batches())
    assert len(batches) == 8  # 60 records
    real = np.concatenate([batch["is_real_example"] for batch in batches])
    assert _flat(_numbers(batches)) == [*range(60), 56, 56, 56, 56]
    np.testing.assert_array_equal(real, [1] * 60 + [0] * 4)
    data = input_pipeline.EvaluationInput(paths, SCHEMA, LENGTHS, 8, max_batches=2)
    assert _flat(_numbers(data.batches())) == list(range(16))
    # Three replicas read the same examples, in batches that are filled up to nine.
    batches = list(data.batches(tf.distribute.InputContext(1, 0, 3)))
    assert _flat(_numbers(batches)) == [*range(8), 0, *range(8, 16), 8]
    assert _flat(x["is_real_example"].numpy() for x in batches) == 2 * ([1] * 8 + [0])


def test_fingerprint_of_an_evaluation_changes_with_what_it_reads(tmp_path):
    path = tmp_path / "eval.tf_record"
    path.write_bytes(b"12")
    vocab = {"[CLS]": 0, "[SEP]": 1, "[MASK]": 2}
    masking = DynamicMasking(vocab, {"S": 8, "P": 2}, 0.15, seed=0)

    def fingerprint(lengths=LENGTHS, size=8, **options):
        data = input_pipeline.EvaluationInput([str(path)], SCHEMA, lengths, size, **options)
        return data.fingerprint

    same = {fingerprint(), fingerprint(size=4), fingerprint(length_multiple=8)}
    assert len(same) == 1
    others = [
        fingerprint({"S": 16}), fingerprint(max_batches=2), fingerprint(size=4, max_batches=2),
        fingerprint(masking=masking), fingerprint(size=4, masking=masking), fingerprint(source="a"),
    ]  # fmt: skip
    path.write_bytes(b"123")
    assert len({*same, *others, fingerprint()}) == 8


def test_evaluation_keeps_is_real_example_of_the_records(tmp_path):
    schema = {"x": records.Feature("int64", 1), "is_real_example": records.Feature("int64", None)}
    values = [{"x": [5], "is_real_example": is_real} for is_real in (1, 0, 1)]
    path = write_examples([str(tmp_path / "x.tfrecord")], schema, values)
    (batch,) = input_pipeline.EvaluationInput([path], schema, {}, 4).batches()
    np.testing.assert_array_equal(batch["is_real_example"], [1, 0, 1, 0])
