"""A function of a model over any number of sequences, on all devices of a strategy.

Letters of shapes: B batch, S sequence.
"""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS
from bert_tf.training import Workers, length_multiple, on_all_replicas, per_replica

# What the answers of one window may take; a window is what is sorted by length together.
_WINDOW_BYTES = 128 << 20
_MOST_BATCHES = 64


class Row(NamedTuple):
    """One sequence: what the caller knows it by, and what the model takes of it.

    `more` are further inputs by name, lists of whole numbers.
    """

    item: Any
    input_ids: list
    segment_ids: list
    more: Mapping = MappingProxyType({})


class Runner:
    """Runs a function of a model on batches of sequences, and gives its answers in their order.

    Sequences that are read together are sorted by length, so that those of a batch are of about
    the same length, and padded to the longest of them. A TPU compiles anew for every shape, so
    there all batches are full and padded to `max_seq_length`.
    """

    def __init__(
        self, function, strategy, batch_size, max_seq_length, bytes_per_row=0, more_inputs=()
    ):
        """Takes what to run.

        Args:
          function: from a dict of int32 (B, S) (`input_ids`, `input_mask`, `segment_ids`, and what
            rows have more) to a dict of tensors (B, ...).
          strategy: a `tf.distribute.Strategy` of one process.
          batch_size: the global batch.
          max_seq_length: the longest sequence that comes.
          bytes_per_row: about what the answers of the longest sequence take.
          more_inputs: the names that rows have in `more`. Their lists are padded with 0 to the next
            power of two, which makes few shapes of any number.

        Raises:
          UserError: if the batch does not divide over the devices, or there are several processes.
        """
        if Workers(strategy).is_several:
            raise UserError(ONE_PROCESS)
        per_replica(batch_size, strategy, "batch_size")
        self._function, self._batch_size = function, batch_size
        self._num_replicas = strategy.num_replicas_in_sync
        self._multiple = length_multiple(strategy, False, max_seq_length)
        self._longest = max_seq_length
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        self._window = batch_size * min(max(1, num_batches), _MOST_BATCHES)
        any_shape = {
            name: tf.TensorSpec((None, None), tf.int32) for name in (*INPUTS, *more_inputs)
        }
        # Where shapes are free, one trace does for all of them.
        self._step = on_all_replicas(
            self._on_own_rows, strategy, any_shape if self._multiple else None
        )

    def run(self, rows, what, unit="texts", cut=None):
        """Yields (item, dict of arrays) for each row, in order.

        Args:
          rows: iterable of `Row`; it is read as it is needed.
          what: the job, for the progress line.
          unit: what is counted in it.
          cut: function from a row and its arrays to what to yield of them, to leave out the
            padding; None yields them as they are.
        """
        ticker = console.Ticker(what, unit)
        rows = iter(rows)
        while window := list(itertools.islice(rows, self._window)):
            found = [None] * len(window)
            for places, values in self._answers(window):
                for i, place in enumerate(places):
                    one = {name: value[i] for name, value in values.items()}
                    found[place] = cut(window[place], one) if cut else one
                ticker.add(len(places))
            yield from ((row.item, one) for row, one in zip(window, found, strict=True))
        ticker.done()

    def _answers(self, window):
        """Yields (places in the window, dict of arrays with a row for each) of its batches."""
        order = range(len(window))
        if self._multiple:
            order = sorted(order, key=lambda place: len(window[place].input_ids))
        waiting = None
        for start in range(0, len(window), self._batch_size):
            places = order[start : start + self._batch_size]
            values = self._step(self._batch([window[place] for place in places]))
            # The answers before these are copied while the device works on these.
            if waiting:
                yield _to_host(*waiting)
            waiting = places, values
        yield _to_host(*waiting)

    def _batch(self, rows):
        """Rows to a dict of int32 (B, S); the first row fills up what the devices want more."""
        unit = self._num_replicas if self._multiple else self._batch_size
        rows = rows + rows[:1] * (-len(rows) % unit)
        length = self._longest
        if self._multiple:
            longest = max(len(row.input_ids) for row in rows)
            length = min(-(-longest // self._multiple) * self._multiple, length)
        batch = {
            "input_ids": _padded([row.input_ids for row in rows], length),
            "input_mask": _padded([[1] * len(row.input_ids) for row in rows], length),
            "segment_ids": _padded([row.segment_ids for row in rows], length),
        }
        for name in rows[0].more:
            values = [row.more[name] for row in rows]
            batch[name] = _padded(values, 1 << (max(map(len, values)) - 1).bit_length())
        return batch

    def _on_own_rows(self, batch):
        """Every replica is given the whole batch, a few numbers, and takes its own rows of it."""
        if self._num_replicas > 1:
            mine = tf.distribute.get_replica_context().replica_id_in_sync_group
            batch = {
                name: tf.gather(tf.stack(tf.split(values, self._num_replicas)), mine)
                for name, values in batch.items()
            }
        return self._function(batch)


ONE_PROCESS = (
    "TF_CONFIG names several workers, but vectors, masked words and attention are the work of one "
    "process; unset it, and give each machine a part of the texts"
)


def _to_host(places, values):
    return places, {name: value.numpy() for name, value in values.items()}


def _padded(lists, length):
    """Lists of whole numbers as int32 (B, length), padded with 0."""
    return np.array([[*values, *[0] * (length - len(values))] for values in lists], "int32")
