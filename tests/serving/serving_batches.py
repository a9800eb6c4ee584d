"""Batches of the stand-in for TF Serving: what is asked at the same time is run together.

The parameters and what they mean are those of TF Serving's batching guide.
"""

import collections
import re
import threading
import time
from concurrent import futures

import numpy as np


class Refused(Exception):
    """A request that is refused; `code` is gRPC's name for why."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def read_parameters(path):
    """Dict of the numbers and lists of numbers in a `batching_parameters.txt`."""
    found = {"allowed_batch_sizes": []}
    with open(path, encoding="utf-8") as reader:
        for line in filter(None, map(str.strip, reader)):
            name, value = re.fullmatch(r"(\w+)(?: \{ value)?: (\w+)(?: \})?", line).groups()
            if name == "allowed_batch_sizes":
                found[name].append(int(value))
            else:
                found[name] = int(value) if value.isdecimal() else value == "true"
    sizes = found["allowed_batch_sizes"]
    if sizes and (sizes != sorted(sizes) or sizes[-1] != found["max_batch_size"]):
        raise ValueError(f"{path}: allowed_batch_sizes must rise to max_batch_size")
    if not found.get("enable_large_batch_splitting"):
        found["max_execution_batch_size"] = found["max_batch_size"]
    return found


class Batcher:
    """Runs requests of one signature together: dict of arrays (B, ...) -> dict of arrays.

    Attributes:
      batches: how many rows each batch had, the newest 10,000.
    """

    def __init__(self, run, parameters=None):
        """Takes what runs a batch, and the parameters; None to run each request by itself."""
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
        most, limit = (
            self._parameters["max_execution_batch_size"],
            self._parameters["max_batch_size"],
        )
        if size > limit:
            said = f"Task size {size} is larger than maximum input batch size {limit}"
            raise Refused("INVALID_ARGUMENT", said)
        parts = [
            ({name: x[start : start + most] for name, x in columns.items()}, futures.Future())
            for start in range(0, size, most)
        ]
        with self._changed:
            rows = sum(_size(x) for x, *_ in self._waiting) + size
            if rows > self._parameters["max_enqueued_batches"] * most:
                raise Refused("UNAVAILABLE", "The batch scheduling queue is full")
            self._waiting.extend((*part, time.monotonic()) for part in parts)
            self._changed.notify_all()
        found = [future.result() for _, future in parts]
        return {name: np.concatenate([x[name] for x in found]) for name in found[0]}

    def stop(self):
        """Ends its threads, when they have run what waits."""
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
        """The requests of the next batch: it is full, or the first has waited long enough."""
        most = self._parameters["max_execution_batch_size"]
        longest = self._parameters["batch_timeout_micros"] / 1e6
        with self._changed:
            while True:
                rows = sum(_size(columns) for columns, *_ in self._waiting)
                left = None
                if self._waiting:
                    left = self._waiting[0][2] + longest - time.monotonic()
                if rows >= most or (rows and (left <= 0 or not self._is_open)):
                    break
                if not self._is_open:
                    return []
                self._changed.wait(left)
            batch, rows = [], 0
            while self._waiting and rows + _size(self._waiting[0][0]) <= most:
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
        more = next((x for x in allowed if x >= sum(rows)), sum(rows)) - sum(rows)
        together = {}
        for name in columns[0]:
            parts = [x[name] for x in columns]
            together[name] = np.concatenate([*parts, *[parts[0][:1]] * more])
        found, start = self._run(together), 0
        for size, (_, future, _) in zip(rows, batch, strict=True):
            future.set_result({name: x[start : start + size] for name, x in found.items()})
            start += size


def _size(columns):
    return len(next(iter(columns.values())))
