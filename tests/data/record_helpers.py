"""Records serialized by TensorFlow: for comparison, and for values that bert_tf does not write."""

import numpy as np
import tensorflow as tf


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
