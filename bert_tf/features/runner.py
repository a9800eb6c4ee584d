"""A function of a model over any number of sequences, on all devices of a strategy.

Letters of shapes: B batch, S sequence.
"""

import collections
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data.pipelines import share
from bert_tf.training import Workers, length_multiple, per_replica

# What the answers of one window may take; a window is what is sorted by length together.
_WINDOW_BYTES = 128 << 20
_MOST_BATCHES = 64


class Row(NamedTuple):
    """One sequence: what the caller knows it by, and what the model takes of it.

    `more` are further inputs by name, lists of whole numbers; they are padded with 0 to the length
    of the longest in a batch.
    """

    item: Any
    input_ids: list
    segment_ids: list
    more: Mapping = MappingProxyType({})


class Runner:
    """Runs a function of a model on batches of sequences, and gives its answers in their order.

    Sequences that are read together are sorted by length, so that those of a batch are of about
    the same length, and padded to the longest of them; on a TPU, which compiles for one length, all
    are padded to `max_seq_length`.
    """

    def __init__(self, function, strategy, batch_size, max_seq_length, bytes_per_row=0):
        """Takes what to run.

        Args:
          function: from a dict of int32 (B, S) (`input_ids`, `input_mask`, `segment_ids`, and what
            rows have more) to a dict of tensors (B, ...).
          strategy: a `tf.distribute.Strategy`.
          batch_size: the global batch.
          max_seq_length: the longest sequence that comes.
          bytes_per_row: about what the answers of the longest sequence take.

        Raises:
          UserError: if the batch does not divide over the devices.
        """
        per_replica(batch_size, strategy, "batch_size")
        self._strategy, self._batch_size = strategy, batch_size
        self._multiple = length_multiple(strategy, False, max_seq_length)
        self._longest = max_seq_length
        self.workers = Workers(strategy)
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        self._window = batch_size * min(max(1, num_batches), _MOST_BATCHES)

        self._function, self._steps = function, {}

    def run(self, rows, what, unit="texts", cut=None):
        """Yields (item, dict of arrays) for each row, in order.

        All workers must run the same rows; each of them gets all answers.

        Args:
          rows: iterable of `Row`; it is read as it is needed, by a thread of its own.
          what: the job, for the progress line.
          unit: what is counted in it.
          cut: function from a row and its arrays to what to yield of them, to leave out the
            padding; None yields them as they are.
        """
        ticker = console.Ticker(what, unit)
        coming, failed = collections.deque(), []
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        specs = {name: self._spec(name in first.more) for name in _columns(first)}
        dataset = tf.data.Dataset.from_generator(
            lambda: self._guarded(itertools.chain([first], rows), coming, failed),
            output_signature=specs,
        )

        def batches(context):
            return share(dataset, self._batch_size, context).prefetch(2)

        found, turn = {}, 0
        with self.workers.watched():
            distributed = self._strategy.distribute_datasets_from_function(batches)
            step = self._step(distributed.element_spec)
            for batch in distributed:
                values = {name: x.numpy() for name, x in step(batch).items()}
                for i, (place, row) in enumerate(coming.popleft()):
                    one = {name: value[i] for name, value in values.items()}
                    found[place] = row.item, cut(row, one) if cut else one
                while turn in found:
                    ticker.add()
                    yield found.pop(turn)
                    turn += 1
        if failed:
            raise failed[0]
        ticker.done()

    def _spec(self, is_more):
        size = None if is_more or self._multiple else self._longest
        return tf.TensorSpec((self._batch_size, size), tf.int32)

    def _step(self, spec):
        """The function from a distributed batch to the answers of all replicas.

        It is traced once for all lengths: with the spec of a batch, not with a batch.
        """
        key = repr(spec)
        if key not in self._steps:

            @tf.function(input_signature=[spec])
            def step(batch):
                values = self._strategy.run(self._function, args=(batch,))
                return {
                    name: self._strategy.gather(value, axis=0) for name, value in values.items()
                }

            self._steps[key] = step
        return self._steps[key]

    def _guarded(self, rows, coming, failed):
        """The batches of all rows; an error among the rows is kept, TensorFlow would wrap it up."""
        try:
            yield from self._batches(rows, coming)
        except Exception as error:
            failed.append(error)

    def _batches(self, rows, coming):
        """Yields dicts of int32 (B, S), and notes in `coming` which rows each batch is made of."""
        rows = enumerate(rows)
        while window := list(itertools.islice(rows, self._window)):
            if self._multiple:
                window.sort(key=lambda numbered: len(numbered[1].input_ids))
            for start in range(0, len(window), self._batch_size):
                part = window[start : start + self._batch_size]
                coming.append(part)
                yield self._batch([row for _, row in part])

    def _batch(self, rows):
        length = self._longest
        if self._multiple:
            longest = max(len(row.input_ids) for row in rows)
            length = min(-(-longest // self._multiple) * self._multiple, length)
        # A last part of a batch is filled up with its first row.
        rows = rows + rows[:1] * (self._batch_size - len(rows))
        columns = [_columns(row) for row in rows]
        batch = {}
        for name in columns[0]:
            values = [column[name] for column in columns]
            size = length
            if name in rows[0].more:
                size = max(len(value) for value in values)
            batch[name] = np.array([[*v, *[0] * (size - len(v))] for v in values], "int32")
        return batch


def _columns(row):
    return {
        "input_ids": row.input_ids,
        "input_mask": [1] * len(row.input_ids),
        "segment_ids": row.segment_ids,
        **row.more,
    }
