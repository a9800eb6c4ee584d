"""Load, save and convert the weights of release and Hugging Face models, by name."""

from bert_tf.checkpoints.convert import convert, resize
from bert_tf.checkpoints.hub import MODELS, fetch
from bert_tf.checkpoints.hugging_face import write_hugging_face
from bert_tf.checkpoints.metadata import load_config, read_metadata, read_settings
from bert_tf.checkpoints.names import tensors, weights
from bert_tf.checkpoints.release import ReleaseCheckpoint, find, write
from bert_tf.checkpoints.resolver import PretrainedFiles, resolve
from bert_tf.checkpoints.warm_start import open_checkpoint, warm_start
