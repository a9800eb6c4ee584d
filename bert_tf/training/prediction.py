"""Run a function on features in memory: in batches of similar length, on all devices."""

import math
import operator

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.data.batching import BATCH_TOKENS, run_in_order
from bert_tf.errors import UserError

_TYPES = {"int64": "int32", "float32": "float32"}  # see `records.parse`

# Rows are sorted by length within windows of at most this many output bytes and batches.
_WINDOW_BYTES = 128 << 20
_MAX_WINDOW_BATCHES = 64

# Records to parse at a time.
_CHUNK = 1000

SINGLE_PROCESS_MESSAGE = (
    "TF_CONFIG lists several workers, but feature extraction, sentence embedding and masked-word "
    "prediction run in a single process; unset TF_CONFIG and process a share of the texts on each "
    "machine"
)


class BatchRunner:
    """Runs a function on batches of features and returns the outputs in input order.

    Within a window, rows are sorted by length, so that batches need little padding. TPUs recompile
    for each new shape, so their batches are full and padded to the maximum length.
    """

    def __init__(self, function, model, engine, schema, lengths):
        """Create a runner.

        Args:
          function: function from (outputs of the model, batch) to a dict of tensors (B, ...).
          model: a Keras model, or a function with the same arguments.
          engine: the single-process `training.Engine` of the model.
          schema: the schema of the features, see `data.records`.
          lengths: the lengths in the schema.
        """
        if engine.is_multi_worker:
            raise UserError(SINGLE_PROCESS_MESSAGE)
        self._schema, self._lengths = schema, lengths
        self._num_replicas = engine.num_devices
        self._multiple = engine.length_multiple(lengths["S"], False)
        # A masked word takes as long as many tokens.
        is_any_size = engine.has_any_batch_size and "P" not in lengths
        self._has_larger_batches = is_any_size and self._multiple
        # If shapes may vary, a single trace covers all of them.
        any_shape = {
            name: tf.TensorSpec([None] * (1 + len(x.shape({}))), _TYPES[x.dtype])
            for name, x in schema.items()
        }
        spec = any_shape if self._multiple else None
        self._step, self._step_of_one = engine.compute_steps(function, model, spec)

    def run(self, items, batch_size, description, unit="texts", bytes_per_row=0):
        """Yield (item, dict of its output arrays) for each pair (item, features), read lazily.

        Features are dicts of arrays without padding. `batch_size` is for all replicas, see
        `BatchConfig`; `bytes_per_row` is the approximate size of the output for the longest row.
        """
        batch_size = BatchConfig(batch_size).batch_size
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        window_size = batch_size * min(max(1, num_batches), _MAX_WINDOW_BATCHES)
        num_tokens = min(BATCH_TOKENS * self._num_replicas, batch_size * self._lengths["S"])
        max_rows = window_size if self._has_larger_batches else batch_size
        progress = console.ProgressLog(description, unit, is_brief=True)

        def run_batch(rows):
            progress.add(len(rows))
            step = self._step_of_one if len(rows) == 1 else self._step
            return step(self._make_batch([features for _, features in rows], batch_size))

        def key(row):
            return 0, row[1]["input_mask"].size

        for (item, _), outputs in run_in_order(
            items, run_batch, key, window_size, num_tokens, batch_size, max_rows
        ):
            yield item, outputs
        progress.done()

    def _make_batch(self, rows, batch_size):
        """Return a dict of arrays (B, ...), filled up with copies of the first row."""
        size = len(rows) if self._multiple else batch_size
        rows = [*rows, *rows[:1] * (size + -size % self._num_replicas - len(rows))]
        batch = {}
        for name, feature in self._schema.items():
            values = [row[name] for row in rows]
            shape = limits = feature.shape(self._lengths)
            if self._multiple:
                shape = np.max([x.shape for x in values], 0).astype(int)
                if feature.shape({})[-1:] == ["S"]:
                    length = math.ceil(shape[-1] / self._multiple) * self._multiple
                    shape[-1] = min(length, limits[-1])
            batch[name] = np.zeros((len(rows), *shape), _TYPES[feature.dtype])
            for i, value in enumerate(values):
                batch[name][(i, *map(slice, value.shape))] = value
        return batch


def parse_rows(serialized, schema, lengths):
    """Yield the features of serialized records as dicts of arrays, without padding."""
    for start in range(0, len(serialized), _CHUNK):
        chunk = tf.constant(serialized[start : start + _CHUNK])
        batch = {k: x.numpy() for k, x in records.parse(chunk, schema, lengths).items()}
        for i, mask in enumerate(batch["input_mask"]):
            # After the last token of the longest sequence, and the last window of a document.
            *counts, length = np.max(np.nonzero(mask), 1) + 1
            row = {name: x[i] for name, x in batch.items()}
            for name, feature in schema.items():
                if feature.shape({})[-1:] == ["S"]:
                    row[name] = row[name][..., :length]
                if feature.is_windowed:
                    row[name] = row[name][: counts[0]]
            yield row


class ModelCache:
    """Keeps what depends on settings and on the variables of a model, such as traced functions."""

    def __init__(self):
        self._entries = {}

    def get(self, model, name, settings, make):
        """Return the result of `make`, again only if the settings or the variables changed.

        `quantize` and `enable_lora` replace variables.
        """
        old, layers, variables, result = self._entries.get(name, (None, (), (), None))
        # Keras takes much longer to list the variables.
        current = [x for layer in layers for x in layer._trainable_variables]
        is_same = old == (model, settings) and len(current) == len(variables)
        if not is_same or not all(map(operator.is_, current, variables)):
            result, layers = make(), [*model._flatten_layers()]
            variables = [x for layer in layers for x in layer._trainable_variables]
            self._entries[name] = (model, settings), layers, variables, result
        return result
