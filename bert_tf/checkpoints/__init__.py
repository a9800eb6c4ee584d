"""Weights of the release and of Hugging Face, in and out, by name."""

from bert_tf.checkpoints.names import encoder_shapes, release_name, weights
from bert_tf.checkpoints.release import ReleaseCheckpoint, find, write
from bert_tf.checkpoints.warm_start import open_checkpoint, warm_start

__all__ = [
    "ReleaseCheckpoint",
    "encoder_shapes",
    "find",
    "open_checkpoint",
    "release_name",
    "warm_start",
    "weights",
    "write",
]
