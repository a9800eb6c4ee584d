"""Load, save and convert the weights of release and Hugging Face models, by name."""

from bert_tf.checkpoints.convert import convert, resize
from bert_tf.checkpoints.hub import MODELS, fetch
from bert_tf.checkpoints.hugging_face import write as write_hugging_face
from bert_tf.checkpoints.hugging_face_hub import local_folder
from bert_tf.checkpoints.load_model import load_model
from bert_tf.checkpoints.metadata import load_config, read_metadata, read_settings
from bert_tf.checkpoints.names import tensors, weights
from bert_tf.checkpoints.release import (
    ReleaseCheckpoint,
    check_path,
    find,
    named_checkpoint,
    remove,
    write,
)
from bert_tf.checkpoints.resolver import PretrainedFiles, resolve
from bert_tf.checkpoints.warm_start import open_checkpoint, warm_start, weight_files

__all__ = [
    "MODELS",
    "PretrainedFiles",
    "ReleaseCheckpoint",
    "check_path",
    "convert",
    "fetch",
    "find",
    "load_config",
    "load_model",
    "local_folder",
    "named_checkpoint",
    "open_checkpoint",
    "read_metadata",
    "read_settings",
    "remove",
    "resize",
    "resolve",
    "tensors",
    "warm_start",
    "weight_files",
    "weights",
    "write",
    "write_hugging_face",
]
