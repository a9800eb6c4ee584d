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
    """Return a dataset of dicts whose batches divide over the devices, with the same losses.

    The last row is repeated with `is_real_example` 0. Unless `can_repeat`, the last rows are
    dropped instead.
    """
    count = num_devices()
    if count == 1:
        return dataset

    def fill(batch):
        size = tf.shape(batch["input_ids"])[0]
        rows = tf.range(-(-size // count) * count)
        is_real = tf.cast(rows < size, tf.int32)
        batch = {name: tf.gather(x, tf.minimum(rows, size - 1)) for name, x in batch.items()}
        return {**batch, "is_real_example": is_real}

    def cut(batch):
        size = tf.shape(batch["input_ids"])[0] // count * count
        return {name: x[:size] for name, x in batch.items()}

    if can_repeat:
        return dataset.map(fill)
    console.info("batches are cut to multiples of the %d devices", count)
    return dataset.map(cut).filter(lambda batch: tf.size(batch["input_ids"]) > 0)


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
