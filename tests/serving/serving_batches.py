"""Batching in the stand-in for TF Serving: simultaneous requests run together.

TF Serving's batching guide defines the parameters.
"""

import collections
import re
import threading
import time
from concurrent import futures

import numpy as np


class Refused(Exception):
    """A refused request; `code` is the name of the gRPC status code."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def read_parameters(path):
    """Return the numbers and lists of numbers in a `batching_parameters.txt` as a dict."""
    parameters = {"allowed_batch_sizes": []}
    with open(path, encoding="utf-8") as reader:
        for line in filter(None, map(str.strip, reader)):
            name, value = re.fullmatch(r"(\w+)(?: \{ value)?: (\w+)(?: \})?", line).groups()
            if name == "allowed_batch_sizes":
                parameters[name].append(int(value))
            else:
                parameters[name] = int(value) if value.isdecimal() else value == "true"
    sizes = parameters["allowed_batch_sizes"]
    if sizes and (sizes != sorted(sizes) or sizes[-1] != parameters["max_batch_size"]):
        raise ValueError(f"{path}: allowed_batch_sizes must rise to max_batch_size")
    if not parameters.get("enable_large_batch_splitting"):
        parameters["max_execution_batch_size"] = parameters["max_batch_size"]
    return parameters


class Batcher:
    """Runs requests to one signature together: dict of arrays (B, ...) -> dict of arrays.

    Attributes:
      batches: the numbers of rows of the last 10,000 batches.
    """

    def __init__(self, run, parameters=None):
        """Start the threads.

        Args:
          run: function that runs a batch.
          parameters: dict from `read_parameters`; None runs each request alone.
        """
        self._run, self._parameters = run, parameters
        self._waiting, self._changed = collections.deque(), threading.Condition()
        self._is_open, self.batches = True, collections.deque(maxlen=10_000)
        self._threads = []
        for _ in range(parameters["num_batch_threads"] if parameters else 0):
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()

    def __call__(self, columns):
        sizes = {len(x) if np.ndim(x) else None for x in columns.values()}
        if len(sizes) != 1 or None in sizes:
            raise Refused("INVALID_ARGUMENT", "inputs must have the same 0th dimension")
        (size,) = sizes
        if not self._parameters or not size:
            return self._run(columns)
        batch_size = self._parameters["max_execution_batch_size"]
        limit = self._parameters["max_batch_size"]
        if size > limit:
            message = f"Task size {size} is larger than maximum input batch size {limit}"
            raise Refused("INVALID_ARGUMENT", message)
        parts = [
            ({name: x[start : start + batch_size] for name, x in columns.items()}, futures.Future())
            for start in range(0, size, batch_size)
        ]
        with self._changed:
            rows = sum(_size(x) for x, *_ in self._waiting) + size
            if rows > self._parameters["max_enqueued_batches"] * batch_size:
                raise Refused("UNAVAILABLE", "The batch scheduling queue is full")
            self._waiting.extend((*part, time.monotonic()) for part in parts)
            self._changed.notify_all()
        outputs = [future.result() for _, future in parts]
        return {name: np.concatenate([x[name] for x in outputs]) for name in outputs[0]}

    def stop(self):
        """Run the waiting requests and end the threads."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self):
        while batch := self._next():
            try:
                self._answer(batch)
            except Exception as error:
                for _, future, _ in batch:
                    future.set_exception(error)

    def _next(self):
        """Return the next batch of requests, once it is full or its first request times out."""
        batch_size = self._parameters["max_execution_batch_size"]
        timeout = self._parameters["batch_timeout_micros"] / 1e6
        with self._changed:
            while True:
                rows = sum(_size(columns) for columns, *_ in self._waiting)
                left = None
                if self._waiting:
                    left = self._waiting[0][2] + timeout - time.monotonic()
                if rows >= batch_size or (rows and (left <= 0 or not self._is_open)):
                    break
                if not self._is_open:
                    return []
                self._changed.wait(left)
            batch, rows = [], 0
            while self._waiting and rows + _size(self._waiting[0][0]) <= batch_size:
                batch.append(self._waiting.popleft())
                rows += _size(batch[-1][0])
            return batch

    def _answer(self, batch):
        columns = [columns for columns, *_ in batch]
        rows = [_size(x) for x in columns]
        for name in columns[0]:
            if len({x[name].shape[1:] for x in columns}) > 1:
                raise Refused("FAILED_PRECONDITION", f"{name}: requests of different shapes")
        self.batches.append(sum(rows))
        allowed = self._parameters["allowed_batch_sizes"]
        padding = next((x for x in allowed if x >= sum(rows)), sum(rows)) - sum(rows)
        together = {}
        for name in columns[0]:
            parts = [x[name] for x in columns]
            together[name] = np.concatenate([*parts, *[parts[0][:1]] * padding])
        outputs, start = self._run(together), 0
        for size, (_, future, _) in zip(rows, batch, strict=True):
            future.set_result({name: x[start : start + size] for name, x in outputs.items()})
            start += size


def _size(columns):
    return len(next(iter(columns.values())))
