"""Load, save and convert the weights of release and Hugging Face models, by name."""

from bert_tf.checkpoints.convert import convert as convert
from bert_tf.checkpoints.convert import resize as resize
from bert_tf.checkpoints.hub import MODELS as MODELS
from bert_tf.checkpoints.hub import fetch as fetch
from bert_tf.checkpoints.hugging_face import write_hugging_face as write_hugging_face
from bert_tf.checkpoints.metadata import load_config as load_config
from bert_tf.checkpoints.metadata import read_metadata as read_metadata
from bert_tf.checkpoints.metadata import read_settings as read_settings
from bert_tf.checkpoints.names import tensors as tensors
from bert_tf.checkpoints.names import weights as weights
from bert_tf.checkpoints.release import ReleaseCheckpoint as ReleaseCheckpoint
from bert_tf.checkpoints.release import find as find
from bert_tf.checkpoints.release import write as write
from bert_tf.checkpoints.resolver import PretrainedFiles as PretrainedFiles
from bert_tf.checkpoints.resolver import resolve as resolve
from bert_tf.checkpoints.warm_start import open_checkpoint as open_checkpoint
from bert_tf.checkpoints.warm_start import warm_start as warm_start
