"""TFRecord files to batches for the loop."""

import numpy as np
import tensorflow as tf

from bert_tf.data import records

# Records that are shuffled together: the whole of most fine-tuning sets, and enough of a larger one
# that its order no longer shows.
BLOCK = 100_000


class Training:
    """Endless shuffled batches, a function of the seed and the step alone.

    Every epoch goes through each record once, in another order: the files in another order, and
    what is read from them shuffled in blocks of `BLOCK`.
    """

    def __init__(
        self,
        paths,
        schema,
        lengths,
        batch_size,
        seed,
        limits=None,
        length_multiple=None,
        masking=None,
    ):
        """Takes what the batches are made of.

        Args:
          paths: TFRecord files.
          schema: what is in them, one of `records`' schemas.
          lengths: its lengths, {"S": ..., "P": ...}.
          batch_size: the global batch.
          seed: of the order.
          limits: what values must be below, as `records.limits` makes it; None checks nothing.
          length_multiple: what to round the longest example of a replica's batch up to, for its
            sequences to be padded to; None pads all to `lengths["S"]`.
          masking: a `masking.DynamicMasking` for records without masks.
        """
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self._masking = masking
        self._parse = _parser(schema, lengths, limits, length_multiple)

    def batches(self, first_step=0, context=None):
        """The batches of `first_step` and all later steps.

        Args:
          first_step: how many batches to leave out, for a run that goes on.
          context: the `tf.distribute.InputContext` of a process, for its share of each batch; None
            gives whole batches.

        Returns:
          A `tf.data.Dataset` of dicts (B, ...), B static and that of one replica; S is static
          without `length_multiple`.
        """
        batches = self._shuffled(tf.data.TFRecordDataset, first_step).batch(
            self.batch_size, drop_remainder=True
        )
        if self._masking:
            numbers = tf.data.Dataset.range(first_step, np.iinfo("int64").max)
            batches = tf.data.Dataset.zip(batches, numbers.map(self._noise))
        batches = share(batches, self.batch_size, context).map(self._read, tf.data.AUTOTUNE)
        return endless(batches.prefetch(tf.data.AUTOTUNE))

    def _noise(self, step):
        return self._masking.noise(step, self.batch_size)

    def _read(self, serialized, *noise):
        batch = self._parse(serialized)
        return self._masking(batch, *noise) if self._masking else batch

    def files_of(self, step):
        """The files that the records of a step came from, for an error to name."""

        def names(paths):
            paths = tf.data.Dataset.from_tensor_slices(paths)
            return paths.flat_map(lambda path: tf.data.TFRecordDataset(path).map(lambda _: path))

        batch = self._shuffled(names, step).take(self.batch_size)
        return sorted({path.decode() for path in batch.as_numpy_iterator()})

    def _shuffled(self, read, first_step):
        """All records from that step on, as `read` reads the files of an epoch."""
        skipped = first_step * self.batch_size
        # With their number known, whole epochs and blocks are left out without being read.
        total = self._count() if skipped else 1
        first_epoch, rest = divmod(skipped, total)
        first_block, rest = divmod(rest, BLOCK)

        def blocks(epoch):
            seed = tf.random.experimental.stateless_fold_in([self.seed, 0], epoch)
            start = tf.where(epoch == first_epoch, np.int64(first_block), 0)

            def shuffle(block, values):
                block_seed = tf.random.experimental.stateless_fold_in(seed, start + block)
                return tf.random.experimental.stateless_shuffle(values, block_seed)

            order = tf.random.experimental.stateless_shuffle(self.paths, seed)
            return read(order).skip(start * BLOCK).batch(BLOCK).enumerate().map(shuffle)

        epochs = tf.data.Dataset.range(first_epoch, np.iinfo("int64").max)
        # The next block is got ready while this one is worked through.
        return epochs.flat_map(blocks).prefetch(1).unbatch().skip(rest)

    def _count(self):
        batches = tf.data.TFRecordDataset(self.paths).batch(1000)
        return int(batches.reduce(np.int64(0), lambda n, x: n + tf.shape(x, tf.int64)[0]))


class Evaluation:
    """All records once, in order, the last batch filled up with repeats of its first record.

    `is_real_example` (B,) is 0 in these rows and 1 in all others.
    """

    def __init__(
        self,
        paths,
        schema,
        lengths,
        batch_size,
        max_batches=None,
        limits=None,
        length_multiple=None,
        masking=None,
    ):
        """Takes what the batches are made of, as `Training`; `max_batches` None gives all."""
        self._masking = masking
        self.paths = list(paths)
        self.batch_size = batch_size
        self.max_batches = max_batches
        self._parse = _parser(schema, lengths, limits, length_multiple)

    def batches(self, context=None):
        """The batches, as `Training.batches` gives them."""

        def fill(batch):
            rows = tf.range(self.batch_size)
            is_real = rows < tf.shape(batch)[0]
            return tf.gather(batch, tf.where(is_real, rows, 0)), tf.cast(is_real, tf.int32)

        def parse(serialized, is_real, *noise):
            batch = self._parse(serialized)
            batch = self._masking(batch, *noise) if self._masking else batch
            batch["is_real_example"] = is_real * batch.get("is_real_example", 1)
            return batch

        batches = tf.data.TFRecordDataset(self.paths).batch(self.batch_size)
        if self.max_batches is not None:
            batches = batches.take(self.max_batches)
        batches = batches.map(fill)
        if self._masking:  # the same words each time
            noise = batches.enumerate().map(
                lambda step, _: self._masking.noise(step, self.batch_size)
            )
            batches = tf.data.Dataset.zip(batches, noise).map(lambda batch, noise: (*batch, noise))
        batches = share(batches, self.batch_size, context)
        return batches.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def share(batches, batch_size, context):
    """Cuts global batches down to one process' share, one element for each of its replicas.

    Replica r of all R gets rows r * B / R to (r + 1) * B / R, whatever process it belongs to: so
    the same step sees the same rows on any number of devices and hosts.

    Args:
      batches: dataset of tensors (batch_size, ...) or structures of them.
      batch_size: the global batch.
      context: the process' `tf.distribute.InputContext`; None leaves all as it is.
    """
    if context is None:
        return batches
    rows = batch_size // context.num_input_pipelines
    start = rows * context.input_pipeline_id
    each = context.get_per_replica_batch_size(batch_size)

    def cut(*batch):
        batch = tf.nest.map_structure(
            lambda x: tf.ensure_shape(x[start : start + rows], (rows, *x.shape[1:])), batch
        )
        return batch if len(batch) > 1 else batch[0]

    batches = batches.map(cut)
    return batches if each == rows else batches.rebatch(each, drop_remainder=True)


def endless(batches):
    """Says that a dataset has no end, which TensorFlow does not see.

    Else many workers would ask each other at every step whether one of them has come to it, and
    batches would have no static size.
    """
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def _parser(schema, lengths, limits, length_multiple):
    def parse(serialized):
        batch = records.parse(serialized, schema, lengths, limits)
        return batch if length_multiple is None else records.trim(batch, schema, length_multiple)

    return parse
