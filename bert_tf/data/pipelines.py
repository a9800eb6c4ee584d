"""TFRecord files to batches for the loop."""

import tensorflow as tf

from bert_tf.data import records

# Files read side by side, and records held for shuffling: the whole of any fine-tuning set, and
# enough of a larger one that its order no longer shows.
CYCLE_LENGTH = 4
SHUFFLE_BUFFER = 100_000


def training(paths, schema, lengths, batch_size, seed, first_step=0, limits=None):
    """Endless shuffled batches, the same for the same seed.

    Every epoch goes through each record once, in another order.

    Args:
      paths: TFRecord files.
      schema: what is in them, one of `records`' schemas.
      lengths: its lengths, {"S": ..., "P": ...}.
      batch_size: the global batch.
      seed: of the order.
      first_step: how many batches to leave out, for a run that goes on.
      limits: what values must be below, as `records.limits` makes it; None checks nothing.

    Returns:
      A `tf.data.Dataset` of dicts (B, ...), B static.
    """
    dataset = tf.data.Dataset.from_tensor_slices(paths)
    dataset = dataset.shuffle(len(paths), seed=seed, reshuffle_each_iteration=True)
    dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=CYCLE_LENGTH)
    dataset = dataset.shuffle(SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=True)
    # What is skipped is read and shuffled, but not parsed: about 65,000 records a second, measured
    # on two busy cores with records of 128 tokens (900 bytes), so a million take 15 seconds.
    dataset = dataset.repeat().skip(first_step * batch_size)
    dataset = dataset.batch(batch_size, drop_remainder=True)
    return _finish(dataset.map(_parser(schema, lengths, limits), tf.data.AUTOTUNE))


def evaluation(paths, schema, lengths, batch_size, max_batches=None, limits=None):
    """All records once, in order, the last batch filled up with rows of zeros.

    `is_real_example` (B,) is 0 in these rows and 1 in all others.

    Args:
      paths: TFRecord files.
      schema: what is in them.
      lengths: its lengths.
      batch_size: the global batch.
      max_batches: the most batches to give, None for all.
      limits: as for `training`.

    Returns:
      A `tf.data.Dataset` of dicts (B, ...), B static.
    """

    def fill(batch):
        if "is_real_example" not in batch:
            rows = tf.shape(next(iter(batch.values())))[0]
            batch["is_real_example"] = tf.ones([rows], tf.int32)
        filled = {}
        for name, value in batch.items():
            missing = batch_size - tf.shape(value)[0]
            value = tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
            filled[name] = tf.ensure_shape(value, (batch_size, *value.shape[1:]))
        return filled

    dataset = tf.data.TFRecordDataset(paths).batch(batch_size)
    if max_batches is not None:
        dataset = dataset.take(max_batches)
    return _finish(dataset.map(_parser(schema, lengths, limits), tf.data.AUTOTUNE).map(fill))


def _parser(schema, lengths, limits):
    return lambda serialized: records.parse(serialized, schema, lengths, limits)


def _finish(dataset):
    options = tf.data.Options()
    # One process reads all of it: there is nothing to shard, and TensorFlow would warn that it
    # cannot.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
