"""Input pipelines from TFRecord files to batches for the training loop."""

import dataclasses
import math
import threading
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data import records, tfrecord
from bert_tf.data.dynamic_masking import DynamicMasking
from bert_tf.data.features import digest

# Number of records to shuffle together: all of most fine-tuning sets, and enough to hide the order
# of larger ones.
SHUFFLE_BLOCK = 100_000

# Number of batches to sort by length together. Larger groups need less padding, but with few groups
# the batches of all epochs are similar.
_GROUP_BATCHES = 50
_MIN_GROUPS = 4

# Records per chunk when files are read ahead.
_CHUNK = 1000

# Small files (bytes) are read in parallel to hide the latency of object stores. This takes 50 MB.
_SMALL_FILE, _NUM_SMALL = 1 << 20, 16
_MIN_RECORD = 16  # bytes of an empty record


@dataclasses.dataclass(eq=False)
class _RecordInput:
    """Batches of records; `schema`, `lengths` and `limits` as in `records`.

    Examples are padded to the longest in a replica's batch, rounded up to a multiple of
    `length_multiple`; None pads to `lengths["S"]`.
    """

    schema: dict
    lengths: dict
    batch_size: int
    _: dataclasses.KW_ONLY
    limits: dict | None = None
    length_multiple: int | None = None
    masking: DynamicMasking | None = None

    def _parse(self, serialized, *noise):
        batch = records.parse(serialized, self.schema, self.lengths, self.limits)
        masked = self.masking(batch, *noise) if self.masking else {}
        batch |= {name: masked[name] for name in batch if masked}
        if self.length_multiple is not None:
            batch = records.trim(batch, self.schema, self.length_multiple)
        return {**masked, **batch}


@dataclasses.dataclass(eq=False)
class _Files:
    """The files of an input. It must be the last base class, so that `paths` comes first."""

    paths: Sequence[str]


@dataclasses.dataclass(eq=False)
class TrainingInput(_RecordInput, _Files):
    """Infinite shuffled batches that depend only on `seed` and the step.

    Each epoch uses every record once: it shuffles the files, then their records in blocks.
    `bucket_by_length` sorts up to 50 batches, at most a quarter of an epoch, by length together,
    and then shuffles them. Stream i of `num_input_streams` n reads files i, i + n, i + 2n, ... in
    its own epochs and fills the i-th part of each batch, so a host reads only the streams of its
    rows.
    """

    seed: int
    sizes: Sequence[int] | None = None
    counts: Sequence[int] | None = None
    bucket_by_length: bool = False
    num_input_streams: int = 1
    shuffle_block: int | None = None

    @property
    def fingerprint(self):
        """`tfrecord.fingerprint` of the files, or None without `sizes`."""
        return None if self.sizes is None else tfrecord.fingerprint(self.paths, self.sizes)

    def load_counts(self, cache=None):
        """Set `counts`, if it is None, from side files or the file `cache`, else by counting."""
        if self.counts is not None:
            return
        sizes = tfrecord.sizes(self.paths) if self.sizes is None else self.sizes
        self.counts = tfrecord.read_counts(self.paths, sizes, cache)
        if self.counts is None:
            console.warning("counting the records of %d files without counts", len(self.paths))
            self.counts = tfrecord.count_records(self.paths)
            if cache:
                tfrecord.save_counts(cache, dict(zip(self.paths, self.counts, strict=True)))

    @tf.autograph.experimental.do_not_convert
    def batches(self, first_step=0, context=None):
        """Return the batches from `first_step` on; with a context, this process's share."""
        num_rows = self.batch_size // self.num_input_streams
        local = _local_rows(self.batch_size, context)
        streams = range(local.start // num_rows, math.ceil(local.stop / num_rows))
        batches = [self._stream(i)._serialized_batches(first_step) for i in streams]
        # The rows of these streams, which include all rows of this process.
        rows = slice(streams.start * num_rows, streams.stop * num_rows)
        if len(batches) > 1:
            batches = tf.data.Dataset.zip(*batches).map(lambda *parts: tf.concat(parts, 0))
        else:
            (batches,) = batches

        def make_noise(step):
            noise = self.masking.noise(step, self.batch_size)
            return tf.nest.map_structure(lambda x: x[rows], noise)

        if self.masking:
            steps = tf.data.Dataset.range(first_step, np.iinfo("int64").max)
            batches = tf.data.Dataset.zip(batches, steps.map(make_noise))
        batches = shard_batches(batches, self.batch_size, context, rows.start)
        batches = batches.map(self._parse, tf.data.AUTOTUNE)
        # An infinite dataset has batches with a static size.
        infinite = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        return batches.prefetch(tf.data.AUTOTUNE).apply(infinite)

    def _stream(self, number):
        count = self.num_input_streams
        if count == 1:
            return self
        part = slice(number, None, count)
        return dataclasses.replace(
            self,
            paths=self.paths[part],
            batch_size=self.batch_size // count,
            seed=self.seed + (number << 32),  # seeds of runs have 32 bits
            sizes=self.sizes and self.sizes[part],
            counts=self.counts and self.counts[part],
            num_input_streams=1,
            shuffle_block=max(1, self._block // count),
        )

    @property
    def _block(self):
        return self.shuffle_block or SHUFFLE_BLOCK

    def _serialized_batches(self, first_step):
        if not self.bucket_by_length:
            return self._shuffled(first_step).batch(self.batch_size, drop_remainder=True)
        self.load_counts()
        size = group_size(sum(self.counts), self.batch_size)
        first_group, num_skipped = divmod(first_step, size)

        def sort(group, serialized):
            num_tokens = records.num_tokens(serialized, self.schema, self.lengths)
            order = tf.argsort(num_tokens, stable=True)
            batches = tf.reshape(tf.gather(serialized, order), (size, self.batch_size))
            seed = tf.random.experimental.stateless_fold_in([self.seed, 1], group)
            return tf.random.experimental.stateless_shuffle(batches, seed)

        groups = self._shuffled(first_group * size)
        groups = groups.batch(size * self.batch_size, drop_remainder=True)
        # Sort the next group while the current one is processed.
        batches = groups.enumerate(first_group).map(sort).prefetch(1).unbatch()
        return batches.skip(num_skipped)

    def _shuffled(self, first_step):
        first_epoch, first_block, file, record, rest = self._position(first_step)
        is_small = self.sizes is not None and max(self.sizes) <= _SMALL_FILE

        def read_blocks(epoch):
            seed = self._epoch_seed(epoch)
            is_first = epoch == first_epoch
            block = tf.where(is_first, np.int64(first_block), 0)

            def shuffle(number, values):
                block_seed = tf.random.experimental.stateless_fold_in(seed, block + number)
                return tf.random.experimental.stateless_shuffle(values, block_seed)

            paths = tf.random.experimental.stateless_shuffle(self.paths, seed)
            paths = paths[tf.where(is_first, np.int64(file), 0) :]
            num_skipped = tf.where(is_first, np.int64(record), 0)
            blocks = read_files(paths, num_skipped, is_small).rebatch(self._block)
            return blocks.enumerate().map(shuffle)

        epochs = tf.data.Dataset.range(first_epoch, np.iinfo("int64").max)
        # Read the next block while the current one is processed.
        return epochs.flat_map(read_blocks).prefetch(1).unbatch().skip(rest)

    def _position(self, step):
        """Return the epoch, block, file, record in it, and the shuffled records to skip."""
        num_skipped = step * self.batch_size
        if not num_skipped:
            return 0, 0, 0, 0, 0
        self.load_counts()
        counts = np.array(self.counts, np.int64)
        epoch, rest = divmod(num_skipped, int(counts.sum()))
        block, rest = divmod(rest, self._block)
        # On the CPU like tf.data, because other devices draw different random numbers.
        with tf.device("cpu:0"):
            order = tf.random.experimental.stateless_shuffle(
                np.arange(len(counts)), self._epoch_seed(np.int64(epoch))
            )
        ends = np.cumsum(counts[order.numpy()])
        file = int(np.searchsorted(ends, block * self._block, side="right"))
        record = block * self._block - (int(ends[file - 1]) if file else 0)
        return epoch, block, file, record, rest

    def _epoch_seed(self, epoch):
        return tf.random.experimental.stateless_fold_in([self.seed, 0], epoch)


def group_size(count, batch_size):
    """Return how many batches to sort by length together, for `count` examples per epoch."""
    return min(max(1, count // batch_size // _MIN_GROUPS), _GROUP_BATCHES)


def read_files(paths, num_skipped=0, is_small=False):
    """Return a dataset of all records, in order, as string tensors (R,); files are read ahead."""
    # Small files are single chunks, so that a cycle of several files does not mix them.
    chunk = _SMALL_FILE // _MIN_RECORD if is_small else _CHUNK

    def read_chunks(index, path):
        skip = tf.where(index == 0, tf.cast(num_skipped, tf.int64), 0)
        return tf.data.TFRecordDataset(path).skip(skip).batch(chunk)

    # With a cycle of one file, the files are read ahead but not mixed.
    files = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    cycle, parallel = (_NUM_SMALL, _NUM_SMALL) if is_small else (1, tf.data.AUTOTUNE)
    return files.interleave(read_chunks, cycle, num_parallel_calls=parallel, deterministic=True)


@dataclasses.dataclass(eq=False)
class EvaluationInput(_RecordInput, _Files):
    """All records once, in order, in batches of `batch_size`.

    Copies of its first record fill each batch up to a multiple of the replicas, and the last batch
    up to `batch_size`. `is_real_example` (B,) is 0 for these copies. `source` identifies the data;
    by default, the names and sizes of the files identify it.
    """

    max_batches: int | None = None
    source: str | None = None

    @property
    def fingerprint(self):
        """Hexadecimal digest of everything that affects metrics, except the model."""
        source = self.source or tfrecord.fingerprint(self.paths, tfrecord.sizes(self.paths))
        masking = self.masking and self.masking.identity
        # The batch size affects which examples are read and how they are masked.
        batches = (self.max_batches or masking) and [self.max_batches, self.batch_size]
        return digest([source, self.lengths, batches, masking])

    @tf.autograph.experimental.do_not_convert
    def batches(self, context=None):
        """Return the batches, as `TrainingInput.batches` does."""
        num_replicas = context.num_replicas_in_sync if context else 1
        size = self.batch_size + -self.batch_size % num_replicas

        def pad(batch):
            rows = tf.range(size)
            is_real = rows < tf.shape(batch)[0]
            return tf.gather(batch, tf.where(is_real, rows, 0)), tf.cast(is_real, tf.int32)

        def parse(serialized, is_real, *noise):
            batch = self._parse(serialized, *noise)
            batch["is_real_example"] = is_real * batch.get("is_real_example", 1)
            return batch

        batches = read_files(self.paths).rebatch(self.batch_size)
        if self.max_batches is not None:
            batches = batches.take(self.max_batches)
        batches = batches.map(pad)

        def add_noise(step, batch):
            noise = self.masking.noise(step, self.batch_size)
            return *batch, tuple(tf.gather(x, tf.range(size) % self.batch_size) for x in noise)

        if self.masking:  # the same masks in each evaluation
            batches = batches.enumerate().map(add_noise)
        batches = shard_batches(batches, size, context)
        return batches.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(eq=False)
class FitInput(_RecordInput):
    """Batches for Keras' `fit`; the last one of a pass over the data may be smaller.

    `records` are serialized. `bucket_by_length` is as in `TrainingInput`. Batches are cut to a
    multiple of `row_multiple` rows.
    """

    records: Sequence[bytes]
    shuffle: bool = False
    bucket_by_length: bool = False
    row_multiple: int = 1

    @tf.autograph.experimental.do_not_convert
    def batches(self, num_steps=None):
        """Return an endless dataset of batches, or one of the next `num_steps` batches.

        The data is shuffled again in each pass. The second result is a function that advances a
        finite dataset to its next `num_steps` batches, and None for an endless one.
        """
        rows = self._rows().enumerate()
        advance = None
        if num_steps is not None:
            epoch = []
            advance = epoch.clear
            stream = rows.as_numpy_iterator()
            lock = threading.Lock()

            def read_epoch():
                for i in range(num_steps):
                    with lock:  # an iterator that Keras has left may still read
                        if i == len(epoch):
                            epoch.append(next(stream))
                        batch = epoch[i]
                    yield batch

            rows = tf.data.Dataset.from_generator(read_epoch, output_signature=rows.element_spec)
            rows = rows.apply(tf.data.experimental.assert_cardinality(num_steps))
        values = tf.constant(self.records)

        def parse(step, rows):
            noise = self.masking and self.masking.noise(step, tf.size(rows))
            return self._parse(tf.gather(values, rows), noise)

        return rows.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE), advance

    def _rows(self):
        """Return an endless dataset of the indices of each batch, int64 (B,)."""
        count = len(self.records)
        indices = tf.data.Dataset.range(count)
        if self.shuffle:
            # The masks of a batch depend on its number, so the order must depend on their seed.
            indices = indices.shuffle(count, self.masking and self.masking.identity[1])
        size = group_size(count, self.batch_size) if self.bucket_by_length else 1
        if size > 1:
            lengths = records.num_tokens(tf.constant(self.records), self.schema, self.lengths)

            def sort(group):
                return tf.gather(group, tf.argsort(tf.gather(lengths, group), stable=True))

            indices = indices.batch(size * self.batch_size).map(sort).unbatch()
        batches = indices.batch(self.batch_size)
        if size > 1:
            batches = batches.shuffle(size, self.masking and self.masking.identity[1])
        if (unit := self.row_multiple) > 1:
            batches = batches.map(lambda rows: rows[: tf.size(rows) // unit * unit])
            batches = batches.filter(lambda rows: tf.size(rows) > 0)
        return batches.repeat()


def length_multiple(max_seq_length, is_compiled):
    """Return the multiple to pad batches to.

    XLA compiles the step once per length, so only four lengths are used. In all other cases,
    multiples of 8 suit the kernels.
    """
    return max(8, math.ceil(max_seq_length / 32) * 8) if is_compiled else 8


def _local_rows(batch_size, context):
    """Return the range of the global batch's rows in one process."""
    if context is None:
        return range(batch_size)
    num_rows = batch_size // context.num_input_pipelines
    start = num_rows * context.input_pipeline_id
    return range(start, start + num_rows)


def shard_batches(batches, batch_size, context, first_row=0):
    """Reduce global batches to the share of one process, one element per replica.

    Replica r of R gets rows r * B / R to (r + 1) * B / R, so a step uses the same rows on any
    number of devices and hosts. `batches` start at `first_row` of the global batch.
    """
    if context is None:
        return batches
    rows = _local_rows(batch_size, context)
    start = rows.start - first_row
    num_rows = len(rows)
    replica_batch_size = context.get_per_replica_batch_size(batch_size)

    def slice_rows(*batch):
        batch = tf.nest.map_structure(
            lambda x: tf.ensure_shape(x[start : start + num_rows], (num_rows, *x.shape[1:])), batch
        )
        return batch if len(batch) > 1 else batch[0]

    batches = batches.map(slice_rows)
    if replica_batch_size == num_rows:
        return batches
    return batches.rebatch(replica_batch_size, drop_remainder=True)
