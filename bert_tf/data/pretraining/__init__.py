"""Creation of pre-training instances from text: in memory as in the release, or in shards.

`sources` reads documents, `corpus` tokenizes them, `instances` draws instances with the masks of
`masking`, `writing` writes records. `shards` does all of this for text of any size, with several
processes or with `beam`. TensorFlow is needed only for remote files and tensorflow-datasets.
"""

from bert_tf.data.pretraining import beam
from bert_tf.data.pretraining.corpus import read_corpus
from bert_tf.data.pretraining.instances import Instance, Instances, create_instances
from bert_tf.data.pretraining.masking import KEEP
from bert_tf.data.pretraining.shards import Shards
from bert_tf.data.pretraining.sources import INPUT_FORMATS, FileSource
from bert_tf.data.pretraining.writing import Counts, columns, create_in_memory, write
from bert_tf.deprecation import deprecated_names
from bert_tf.pretraining_options import OBJECTIVES, WORD_BOUNDARIES, InstanceConfig

__all__ = [
    "INPUT_FORMATS",
    "KEEP",
    "OBJECTIVES",
    "WORD_BOUNDARIES",
    "Counts",
    "FileSource",
    "Instance",
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

_DEPRECATED = {
    "BOUNDARIES": "WORD_BOUNDARIES",
    "FORMATS": "INPUT_FORMATS",
    "Settings": "InstanceConfig",
    "make_whole": "create_in_memory",
}
__getattr__ = deprecated_names(__name__, _DEPRECATED)
