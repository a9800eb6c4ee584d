"""Files of records, and records serialized by TensorFlow, for comparison."""

import numpy as np
import tensorflow as tf

from bert_tf.data import records, tfrecord


def write_examples(paths, schema, examples):
    """Write examples to one or more files in turn; return the path of the first one."""
    examples = list(examples)
    with tfrecord.writing(paths) as write:
        write(records.serialize(schema, examples) if examples else [])
    return paths[0]


def serialized_by_tensorflow(values):
    """Return a serialized example of arrays."""
    example = tf.train.Example()
    for name, value in values.items():
        feature = example.features.feature[name]
        if value.dtype == np.float32:
            feature.float_list.value.extend(value.ravel())
        else:
            feature.int64_list.value.extend(map(int, value.ravel()))
    return example.SerializeToString(deterministic=True)
