"""Pre-training instances from text: sources, tokenizing, drawing, writing; whole or in shards.

None of it needs TensorFlow, but for files that are not local and for tensorflow-datasets.
"""

from bert_tf.data.pretraining import beam
from bert_tf.data.pretraining.config import BOUNDARIES, OBJECTIVES, Settings
from bert_tf.data.pretraining.in_memory import make_whole, read_corpus
from bert_tf.data.pretraining.instances import Instance, Instances, create_instances
from bert_tf.data.pretraining.masking import KEEP
from bert_tf.data.pretraining.shards import Shards
from bert_tf.data.pretraining.sources import FORMATS, FileSource
from bert_tf.data.pretraining.writing import Counts, columns, write

__all__ = [
    "BOUNDARIES",
    "FORMATS",
    "KEEP",
    "OBJECTIVES",
    "Counts",
    "FileSource",
    "Instance",
    "Instances",
    "Settings",
    "Shards",
    "beam",
    "columns",
    "create_instances",
    "make_whole",
    "read_corpus",
    "write",
]
