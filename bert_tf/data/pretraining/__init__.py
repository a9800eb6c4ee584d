"""Creation of pre-training instances from text, in memory as in the release, or in shards.

Only remote files and tensorflow-datasets require TensorFlow.
"""

from bert_tf.configs.pretraining_data import InstanceConfig
from bert_tf.data.pretraining import beam
from bert_tf.data.pretraining.corpus import read_corpus
from bert_tf.data.pretraining.instances import create_instances
from bert_tf.data.pretraining.shards import Shards
from bert_tf.data.pretraining.sources import FileSource
from bert_tf.data.pretraining.writing import Counts, columns, create_in_memory, write

__all__ = [
    "Counts",
    "FileSource",
    "InstanceConfig",
    "Shards",
    "beam",
    "columns",
    "create_in_memory",
    "create_instances",
    "read_corpus",
    "write",
]
