"""`JaxEngine`: predictions on all devices of JAX."""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data import input_pipeline


class JaxEngine:
    """Runs predictions on the devices of JAX, in a single process.

    Attributes:
      row_multiple: the number of devices that a batch is divided over.
    """

    is_multi_worker = False
    num_devices = 1
    has_any_batch_size = False  # because each is compiled

    def __init__(self):
        distribution = keras.distribution.distribution()
        self.row_multiple = 1 if distribution is None else distribution.device_mesh.shape[0]

    @classmethod
    def default(cls):
        """Return an engine for all devices, unless a distribution is set."""
        use_all_devices()
        return cls()

    @classmethod
    def of(cls, model):
        """Return an engine for the devices of a Keras model."""
        return cls()

    def scope(self):
        """Return the context in which models and optimizers are created."""
        return contextlib.nullcontext()

    def compiles(self, xla=None, num_train_steps=None):
        """Return whether training steps are compiled for each length."""
        return True

    def length_multiple(self, max_seq_length, is_compiled):
        """Return the multiple to pad batches to."""
        return input_pipeline.length_multiple(max_seq_length, is_compiled)

    def can_skip_padding(self, is_compiled=False, reads_padding=False):
        """Return False: the number of tokens is not static."""
        return False

    def fill_batches(self, dataset):
        """Return a dataset of dicts whose batches divide over the devices, with the same losses.

        The last row is repeated with `is_real_example` 0.
        """
        count = self.row_multiple
        if count == 1:
            return dataset

        def fill(batch):
            size = tf.shape(batch["input_ids"])[0]
            rows = tf.range(-(-size // count) * count)
            is_real = tf.cast(rows < size, tf.int32)
            batch = {name: tf.gather(x, tf.minimum(rows, size - 1)) for name, x in batch.items()}
            return {**batch, "is_real_example": is_real}

        return dataset.map(fill)

    def compute_steps(self, function, model, spec):
        """Return two functions from a batch in memory to outputs, as `TensorFlowEngine` does."""

        def compute(batch):
            return function(self.predict_on_batch(model, batch), batch)

        return compute, compute

    def predict_on_batch(self, model, inputs):
        """Return a model's outputs as arrays; `inputs` is a dict of arrays (B, ...), any B."""
        inputs = {name: np.asarray(x) for name, x in inputs.items()}
        size = len(next(iter(inputs.values())))
        if missing := -size % self.row_multiple:
            inputs = {name: x[[*range(size), *[size - 1] * missing]] for name, x in inputs.items()}
        outputs = model.predict_on_batch(inputs)
        return keras.tree.map_structure(lambda x: keras.ops.convert_to_numpy(x)[:size], outputs)


def use_all_devices():
    """Distribute batches over all devices from now on, unless a distribution is set."""
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
