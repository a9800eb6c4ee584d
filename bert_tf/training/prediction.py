"""Run a function on records in memory: in batches of similar length, on all replicas."""

import functools
import itertools

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data import records
from bert_tf.data.input_pipeline import length_multiple
from bert_tf.errors import UserError
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.training.jax_devices import predict_on_batch
from bert_tf.training.strategy import Workers, on_all_replicas, per_replica

_TENSOR_TYPES = {"int64": tf.int32, "float32": tf.float32}  # see `records.parse`

# Records are sorted by length within windows of at most this many output bytes and batches.
_WINDOW_BYTES = 128 << 20
_MAX_WINDOW_BATCHES = 64

SINGLE_PROCESS_MESSAGE = (
    "TF_CONFIG lists several workers, but feature extraction, sentence embedding and masked-word "
    "prediction run in a single process; unset TF_CONFIG and process a share of the texts on each "
    "machine"
)


class BatchRunner:
    """Runs a function on batches of records and returns the outputs in input order.

    Within a window, records are sorted by length, so that batches need little padding. TPUs
    recompile for each new shape, so their batches are full and padded to the maximum length.
    """

    def __init__(self, function, model, strategy, batch_size, record_format, bytes_per_row=0):
        """Create a runner.

        Args:
          function: function from (outputs of the model, batch) to a dict of tensors (B, ...).
          model: a Keras model, or a function with the same arguments.
          strategy: the single-process `tf.distribute.Strategy` of the model.
          batch_size: the global batch size.
          record_format: dict with the schema and the lengths of the records.
          bytes_per_row: approximate size of the output for the longest record.
        """
        if Workers(strategy).is_multi_worker:
            raise UserError(SINGLE_PROCESS_MESSAGE)
        per_replica(batch_size, strategy, "batch_size")
        self._function, self._model, self._batch_size = function, model, batch_size
        self._schema, self._lengths = record_format["schema"], record_format["lengths"]
        self._num_replicas = strategy.num_replicas_in_sync
        self._multiple = length_multiple(strategy, False, self._lengths["S"])
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        self._window_size = batch_size * min(max(1, num_batches), _MAX_WINDOW_BATCHES)
        # A graph, because the operations of a small batch take several milliseconds eagerly.
        serialized = tf.TensorSpec([None], tf.string)
        self._parse = tf.function(self._parse_batch, [serialized], autograph=False)
        self._step = self._step_of_one = self._run_on_host
        if keras.backend.backend() == "tensorflow":
            # If shapes may vary, a single trace covers all of them.
            any_shape = {
                name: tf.TensorSpec([None] * (1 + len(x.shape({}))), _TENSOR_TYPES[x.dtype])
                for name, x in self._schema.items()
            }
            # For a single row, skipping padding takes more time.
            self._step, self._step_of_one = (
                on_all_replicas(
                    functools.partial(self._run_replica, skip_padding),
                    strategy, any_shape if self._multiple else None,
                )
                for skip_padding in (can_skip_padding(strategy), False)
            )  # fmt: skip

    def run(self, items, description, unit="texts"):
        """Yield (item, dict of its output arrays) for each pair (item, record), read lazily."""
        progress = console.ProgressLog(description, unit, is_brief=True)
        items = iter(items)
        while window := list(itertools.islice(items, self._window_size)):
            results = [None] * len(window)
            for indices, outputs in self._run_window(tf.constant([x for _, x in window])):
                for row, index in enumerate(indices):
                    results[index] = {name: values[row] for name, values in outputs.items()}
                progress.add(len(indices))
            yield from zip((item for item, _ in window), results, strict=True)
        progress.done()

    def _run_window(self, window):
        """Yield (indices into the window, dict of arrays with one row per index) by batch."""
        order = np.arange(len(window))
        if len(window) > 1:
            sizes = records.num_tokens(window, self._schema, self._lengths)
            order = np.argsort(sizes, kind="stable")
        previous = None
        for start in range(0, len(order), self._batch_size):
            indices = order[start : start + self._batch_size]
            step = self._step_of_one if len(indices) == 1 else self._step
            outputs = step(self._make_batch(window, indices))
            # Copy the previous outputs to the host while the device computes.
            if previous:
                yield _to_host(*previous)
            previous = indices, outputs
        yield _to_host(*previous)

    def _make_batch(self, window, indices):
        """Return a dict of tensors (B, ...), filled up with copies of the first record."""
        unit = self._num_replicas if self._multiple else self._batch_size
        indices = np.concatenate([indices, np.repeat(indices[:1], -len(indices) % unit)])
        return self._parse(tf.gather(window, indices))

    def _parse_batch(self, serialized):
        batch = records.parse(serialized, self._schema, self._lengths)
        return records.trim(batch, self._schema, self._multiple) if self._multiple else batch

    def _run_replica(self, skip_padding, batch):
        """Run the function on this replica's rows; every replica receives the whole `batch`."""
        if self._num_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            batch = {
                name: tf.gather(tf.stack(tf.split(values, self._num_replicas)), replica)
                for name, values in batch.items()
            }
        outputs = self._model(batch, training=False, skip_padding=skip_padding)
        return self._function(outputs, batch)

    def _run_on_host(self, batch):
        batch = {name: x.numpy() for name, x in batch.items()}
        return self._function(predict_on_batch(self._model, batch), batch)


def _to_host(indices, outputs):
    return indices, {name: np.asarray(x)[: len(indices)] for name, x in outputs.items()}
