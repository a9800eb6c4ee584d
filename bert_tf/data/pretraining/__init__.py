"""Creation of pre-training instances from text, in memory as in the release, or in shards.

Only remote files and tensorflow-datasets require TensorFlow.
"""

from bert_tf.configs.pretraining_data import OBJECTIVES, WORD_BOUNDARIES, InstanceConfig
from bert_tf.data.pretraining import beam
from bert_tf.data.pretraining.corpus import read_corpus
from bert_tf.data.pretraining.instances import Instances, create_instances
from bert_tf.data.pretraining.masking import KEEP
from bert_tf.data.pretraining.shards import Shards
from bert_tf.data.pretraining.sources import INPUT_FORMATS, FileSource
from bert_tf.data.pretraining.writing import Counts, columns, create_in_memory, write

__all__ = [
    "INPUT_FORMATS",
    "KEEP",
    "OBJECTIVES",
    "WORD_BOUNDARIES",
    "Counts",
    "FileSource",
    "InstanceConfig",
    "Instances",
    "Shards",
    "beam",
    "columns",
    "create_in_memory",
    "create_instances",
    "read_corpus",
    "write",
]
