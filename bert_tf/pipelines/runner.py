"""Batched execution of a model function over a stream of sequences.

Shapes: B batch, S sequence.
"""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data.input_pipeline import length_multiple
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS
from bert_tf.training import Workers, on_all_replicas, per_replica

# Limits of a window, the sequences that are sorted by length together: bytes of its outputs, and
# batches.
_WINDOW_BYTES = 128 << 20
_MAX_WINDOW_BATCHES = 64

SINGLE_PROCESS_MESSAGE = (
    "TF_CONFIG lists several workers, but feature extraction, sentence embedding, masked-word "
    "prediction and attention run in a single process; unset TF_CONFIG and give each machine a "
    "share of the texts"
)


class InputFeatures(NamedTuple):
    """One sequence.

    Attributes:
      item: any object; it is returned with the outputs for this sequence.
      input_ids: list of token ids.
      segment_ids: list of segment ids, of the same length.
      extra_inputs: further inputs of the function, dict from name to list of int.
    """

    item: Any
    input_ids: list
    segment_ids: list
    extra_inputs: Mapping = MappingProxyType({})


class BatchRunner:
    """Runs a function of a model on batches of sequences and returns the outputs in input order.

    The sequences of a window are sorted by length, so that those of a batch have similar lengths,
    and are padded to the longest of the batch. A TPU recompiles for each new shape, so there all
    batches are full and padded to `max_seq_length`.
    """

    def __init__(
        self, function, strategy, batch_size, max_seq_length, bytes_per_row=0, extra_inputs=()
    ):
        """Create a runner.

        Args:
          function: function from a dict of int32 (B, S) (`input_ids`, `input_mask`, `segment_ids`
            and the extra inputs) to a dict of tensors (B, ...).
          strategy: a `tf.distribute.Strategy` of one process.
          batch_size: the global batch size.
          max_seq_length: maximum length of the sequences.
          bytes_per_row: approximate size of the outputs for the longest sequence.
          extra_inputs: names of the `extra_inputs` of the sequences. Their lists are padded with 0
            to the next power of two, which limits the number of shapes.

        Raises:
          UserError: if the batch size is not divisible by the number of devices or the strategy
            has several processes.
        """
        if Workers(strategy).is_multi_worker:
            raise UserError(SINGLE_PROCESS_MESSAGE)
        per_replica(batch_size, strategy, "batch_size")
        self._function, self._batch_size = function, batch_size
        self._num_replicas = strategy.num_replicas_in_sync
        self._multiple = length_multiple(strategy, False, max_seq_length)
        self._max_seq_length = max_seq_length
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        self._window_size = batch_size * min(max(1, num_batches), _MAX_WINDOW_BATCHES)
        any_shape = {
            name: tf.TensorSpec((None, None), tf.int32) for name in (*INPUTS, *extra_inputs)
        }
        # Where shapes may vary, a single trace covers all of them.
        self._step = on_all_replicas(
            self._run_replica, strategy, any_shape if self._multiple else None
        )

    def run(self, sequences, description, unit="texts", trim=None):
        """Yield (item, dict of arrays) for each sequence, in order.

        Args:
          sequences: iterable of `InputFeatures`, read as needed.
          description: name of the job in progress lines.
          unit: what progress lines count.
          trim: function from the `InputFeatures` of a sequence and its arrays to the value that
            takes the place of the arrays, usually to remove padding; None keeps the arrays.
        """
        ticker = console.Ticker(description, unit)
        sequences = iter(sequences)
        while window := list(itertools.islice(sequences, self._window_size)):
            results = [None] * len(window)
            for indices, outputs in self._run_window(window):
                for i, index in enumerate(indices):
                    arrays = {name: value[i] for name, value in outputs.items()}
                    results[index] = trim(window[index], arrays) if trim else arrays
                ticker.add(len(indices))
            yield from ((x.item, result) for x, result in zip(window, results, strict=True))
        ticker.done()

    def _run_window(self, window):
        """Yield (indices into the window, dict of arrays with a row for each) for each batch."""
        order = range(len(window))
        if self._multiple:
            order = sorted(order, key=lambda index: len(window[index].input_ids))
        previous = None
        for start in range(0, len(window), self._batch_size):
            indices = order[start : start + self._batch_size]
            outputs = self._step(self._make_batch([window[index] for index in indices]))
            # Copy the previous outputs to the host while the device computes these.
            if previous:
                yield _to_host(*previous)
            previous = indices, outputs
        yield _to_host(*previous)

    def _make_batch(self, sequences):
        """Return a dict of int32 (B, S); copies of the first sequence fill up the batch."""
        unit = self._num_replicas if self._multiple else self._batch_size
        sequences = sequences + sequences[:1] * (-len(sequences) % unit)
        length = self._max_seq_length
        if self._multiple:
            longest = max(len(x.input_ids) for x in sequences)
            length = min(-(-longest // self._multiple) * self._multiple, length)
        batch = {
            "input_ids": _pad([x.input_ids for x in sequences], length),
            "input_mask": _pad([[1] * len(x.input_ids) for x in sequences], length),
            "segment_ids": _pad([x.segment_ids for x in sequences], length),
        }
        for name in sequences[0].extra_inputs:
            values = [x.extra_inputs[name] for x in sequences]
            batch[name] = _pad(values, 1 << (max(map(len, values)) - 1).bit_length())
        return batch

    def _run_replica(self, batch):
        """Run the function on the replica's rows; each replica is given the whole small batch."""
        if self._num_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            batch = {
                name: tf.gather(tf.stack(tf.split(values, self._num_replicas)), replica)
                for name, values in batch.items()
            }
        return self._function(batch)


def _to_host(indices, outputs):
    return indices, {name: value.numpy() for name, value in outputs.items()}


def _pad(lists, length):
    """Return lists of int as int32 (B, length), padded with 0."""
    return np.array([[*values, *[0] * (length - len(values))] for values in lists], "int32")
