"""Weights of the release, in and out, by name."""

from bert_tf.checkpoints.names import release_name, weights
from bert_tf.checkpoints.release import find, read, tensor, write
from bert_tf.checkpoints.warm_start import warm_start

__all__ = ["find", "read", "release_name", "tensor", "warm_start", "weights", "write"]
