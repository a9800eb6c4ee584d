"""Weights of the release and of Hugging Face, in and out, by name."""

from bert_tf.checkpoints.convert import convert, resize
from bert_tf.checkpoints.hub import MODELS, fetch
from bert_tf.checkpoints.hugging_face import write as write_hugging_face
from bert_tf.checkpoints.metadata import find_config, read_metadata
from bert_tf.checkpoints.names import encoder_shapes, release_name, weights
from bert_tf.checkpoints.release import ReleaseCheckpoint, check_path, find, remove, write
from bert_tf.checkpoints.warm_start import open_checkpoint, warm_start

__all__ = [
    "MODELS",
    "ReleaseCheckpoint",
    "check_path",
    "convert",
    "encoder_shapes",
    "fetch",
    "find",
    "find_config",
    "open_checkpoint",
    "read_metadata",
    "release_name",
    "remove",
    "resize",
    "warm_start",
    "weights",
    "write",
    "write_hugging_face",
]
