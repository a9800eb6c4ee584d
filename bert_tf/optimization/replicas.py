"""Sums over the replicas of a `tf.distribute` strategy."""

import tensorflow as tf


def sum_over_replicas(values):
    """Return a structure of tensors summed over all replicas. To be called in replica context."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return values
    if isinstance(replica.strategy, tf.distribute.TPUStrategy):
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)

    # Elsewhere `all_reduce` registers a gradient for each call that is traced, which keeps the
    # graph, and with it weights and moments, for as long as the process lives.
    def reduce(strategy, *flat):
        pairs = [(value, value) for value in flat]
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    flat = replica.merge_call(reduce, args=list(map(tf.convert_to_tensor, tf.nest.flatten(values))))
    return tf.nest.pack_sequence_as(values, flat)
