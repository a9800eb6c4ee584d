"""Files of records, and records serialized by TensorFlow, for comparison."""

import contextlib

import numpy as np
import tensorflow as tf

from bert_tf.data import records, tfrecord


@contextlib.contextmanager
def writing(paths, schema):
    """Yield a function that adds an example; they are written to the files in turn."""
    examples = []
    yield examples.append
    with tfrecord.writing(paths) as write:
        write(records.serialize(schema, examples) if examples else [])


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
