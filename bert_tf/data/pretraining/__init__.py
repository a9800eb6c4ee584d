"""Creation of pre-training instances from text, in memory as in the release, or in shards.

Only remote files and tensorflow-datasets require TensorFlow.
"""

from bert_tf.configs.pretraining import InstanceConfig
from bert_tf.data.pretraining.corpus import TextFileSource, read_corpus
from bert_tf.data.pretraining.instances import create_instances
from bert_tf.data.pretraining.shards import Shards, create_with_beam
from bert_tf.data.pretraining.writing import Counts, columns, create_in_memory, write
