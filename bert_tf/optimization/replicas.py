"""Sums over the replicas of a `tf.distribute` strategy."""

import tensorflow as tf


def sum_over_replicas(values):
    """Return a structure of tensors summed over all replicas. To be called in replica context."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        # TensorFlow keeps what `all_reduce` traces for as long as the process lives (it registers a
        # gradient for it), and with it the graph, weights and moments of each seed.
        return values
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)
