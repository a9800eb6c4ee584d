"""Several devices on Keras' JAX backend, which requires batches that divide evenly."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console


def use_all_devices():
    """On JAX, distribute batches over all devices from now on, unless a distribution is set."""
    if keras.backend.backend() != "jax":
        return
    # TensorFlow only prepares the data on the host, but would reserve all GPU memory.
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        console.warning("TensorFlow keeps GPU memory that JAX cannot use: %s", error)
    if keras.distribution.distribution() is not None:
        return
    devices = keras.distribution.list_devices()
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        console.info("devices: %d x %s, DataParallel", len(devices), devices[0].partition(":")[0])


def num_devices():
    """Return the number of JAX devices that a batch is divided over, 1 on other backends."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.device_mesh.shape[0]


def divide_batches(dataset, can_repeat=True):
    """Return a dataset whose batches divide over the devices, with the same gradients.

    The last row is repeated with a weight of 0, and the other weights are scaled, because Keras
    counts all rows when it averages. Unless `can_repeat`, the last rows are dropped instead.
    """
    count = num_devices()
    if count == 1 or dataset is None:
        return dataset

    def fill(inputs, targets, weights=None):
        size = tf.shape(tf.nest.flatten(inputs)[0])[0]
        total = -(-size // count) * count
        rows = tf.range(total)
        factor = tf.cast(rows < size, tf.float32) * tf.cast(total / size, tf.float32)
        rows = tf.minimum(rows, size - 1)
        if weights is None:
            weights = factor
        else:
            weights = tf.gather(weights, rows)
            shape = tf.concat([[total], tf.ones(tf.rank(weights) - 1, tf.int32)], 0)
            weights *= tf.reshape(factor, shape)
        inputs, targets = tf.nest.map_structure(lambda x: tf.gather(x, rows), (inputs, targets))
        return inputs, targets, tf.nest.map_structure(lambda _: weights, targets)

    def cut(*batch):
        size = tf.shape(tf.nest.flatten(batch)[0])[0] // count * count
        return tf.nest.map_structure(lambda x: x[:size], batch)

    if can_repeat:
        return dataset.map(fill)
    console.info("batches are cut to multiples of the %d devices", count)
    return dataset.map(cut).filter(lambda *batch: tf.size(tf.nest.flatten(batch)[0]) > 0)


def predict_on_batch(model, inputs):
    """Return a model's outputs as arrays; `inputs` is a dict of arrays with any number of rows."""
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    size = len(next(iter(inputs.values())))
    # With several TensorFlow devices, Keras returns the output of each one for the whole batch.
    missing = -size % num_devices()
    if missing:
        inputs = {name: x[[*range(size), *[size - 1] * missing]] for name, x in inputs.items()}
    outputs = model.predict_on_batch(inputs)
    return keras.tree.map_structure(lambda x: keras.ops.convert_to_numpy(x)[:size], outputs)
