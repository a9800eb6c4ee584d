"""Sums over the replicas of a `tf.distribute` strategy."""

import tensorflow as tf


def sum_over_replicas(values):
    """Sum a structure of tensors over all replicas. Must be called in replica context."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return values
    if isinstance(replica.strategy, tf.distribute.TPUStrategy):
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)

    # Elsewhere `all_reduce` registers a gradient for each traced call, which keeps the graph with
    # its weights and moments alive until the process ends.
    def reduce(strategy, *flat):
        pairs = [(value, value) for value in flat]
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    flat = replica.merge_call(reduce, args=list(map(tf.convert_to_tensor, tf.nest.flatten(values))))
    return tf.nest.pack_sequence_as(values, flat)
