#!/usr/bin/env python3
"""Count what the input of a pre-training run reads before its first step.

The files are made up. Every case does what run_pretraining.py does with its input: list and check
the files, find the number of their records when it resumes, and read the batch of the first step.
Opened files are counted by inotify, and bytes by the counters of the process (Linux only). An
object store transfers up to 64 MB when a file is opened, which the last column estimates.

    python benchmarks/startup_reads.py --shards=20,4000 --records=100
"""

import collections
import ctypes
import os
import select
import struct
import tempfile
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

FLAGS = flags.FLAGS
_OPEN = 0x20  # IN_OPEN of inotify
_OBJECT_STORE_BLOCK = 64 << 20

CASES = {
    "fresh": {"step": 0, "counts": True},
    "resumed at step 1": {"step": 1, "counts": True},
    "resumed at step 1,000,000": {"step": 1_000_000, "counts": True},
    "the same, without counts": {"step": 1_000_000, "counts": False},
    "the same, counted before": {"step": 1_000_000, "counts": False},
}


class ReadCounter:
    """Counts how often the files of a folder are opened, and the bytes that this process reads.

    >>> with ReadCounter("records") as counter:
    ...     read_something()
    ...     print(counter.opens(), counter.num_bytes())
    """

    def __init__(self, folder):
        self._folder, self._opens = folder, collections.Counter()
        self._lock = threading.Lock()

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if libc.inotify_add_watch(self._descriptor, os.fsencode(self._folder), _OPEN) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {self._folder}")
        self._first_bytes = self._bytes_read()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_done.set()
        self._thread.join()
        os.close(self._descriptor)

    def opens(self):
        """Return a `Counter` of the names of the files that were opened."""
        self._read_events()
        with self._lock:
            return self._opens.copy()

    def num_bytes(self):
        """Return the number of bytes that this process has read, from any file."""
        return self._bytes_read() - self._first_bytes

    @staticmethod
    def _bytes_read():
        with open("/proc/self/io") as lines:
            return int(next(lines).split()[1])

    def _collect(self):
        # The system merges equal events and drops events when there are too many.
        while not self._is_done.is_set():
            select.select([self._descriptor], [], [], 0.05)
            self._read_events()

    def _read_events(self):
        with self._lock:
            try:
                data = os.read(self._descriptor, 1 << 20)
            except BlockingIOError:
                return
            position = 0
            while position < len(data):
                length = struct.unpack_from("iIII", data, position)[3]
                name = data[position + 16 : position + 16 + length].rstrip(b"\0").decode()
                position += 16 + length
                if name:  # not the folder itself
                    self._opens[name] += 1


def write_shards(folder, num_shards, num_records, lengths):
    """Write shards of records like those of create_pretraining_data.py, without counts."""
    import numpy as np

    from bert_tf.data import tfrecord

    size, slots = lengths["S"], lengths["P"]
    rng = np.random.default_rng(0)
    paths = []
    for shard in range(num_shards):
        ids = rng.integers(5, 30000, (num_records, size))
        features = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_lm_positions": np.tile(np.arange(slots), (num_records, 1)),
            "masked_lm_ids": ids[:, :slots],
            "masked_lm_weights": np.ones((num_records, slots), np.float32),
            "next_sentence_labels": ids[:, :1] % 2,
        }
        paths.append(os.path.join(folder, f"x-{shard:05d}-of-{num_shards:05d}"))
        with open(paths[-1], "wb") as writer:
            writer.write(tfrecord.frame_records(tfrecord.examples(features)))
    return paths


def measure(folder, step, output_dir, lengths, batch_size):
    """Return (opened files, bytes, seconds) before the batch of a step is ready."""
    from bert_tf import BertConfig
    from bert_tf.options import PretrainingConfig, TrainConfig
    from bert_tf.training import pretraining

    config = PretrainingConfig(
        os.path.join(folder, "x-?????-of-?????"),
        output_dir,
        max_seq_length=lengths["S"],
        max_predictions_per_seq=lengths["P"],
        train=TrainConfig(train_batch_size=batch_size),
    )
    with ReadCounter(folder) as counter:
        start = time.perf_counter()
        data = pretraining.PretrainingData(config, BertConfig(vocab_size=30522))
        data.check()
        if step:
            data.train.load_counts(os.path.join(output_dir, "records.counts.json"))
        next(iter(data.train.batches(step)))
        return counter.opens(), counter.num_bytes(), time.perf_counter() - start


def main(_):
    from bert_tf.data import record_files

    lengths = {"S": FLAGS.max_seq_length, "P": 20}
    print(f"{'':34}{'files':>7}{'opened':>8}{'MB read':>9}{'seconds':>9}{'MB of a store':>15}")
    for num_shards in map(int, FLAGS.shards):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as output_dir:
            paths = write_shards(folder, num_shards, FLAGS.records, lengths)
            for name, case in CASES.items():
                side = record_files.side_file(paths[0])
                if case["counts"]:
                    record_files.write_counts(dict.fromkeys(paths, FLAGS.records))
                elif os.path.exists(side):
                    os.remove(side)
                opens, num_bytes, seconds = measure(
                    folder, case["step"], output_dir, lengths, FLAGS.batch_size
                )
                transfer = sum(
                    count * min(os.path.getsize(os.path.join(folder, path)), _OBJECT_STORE_BLOCK)
                    for path, count in opens.items()
                )
                print(
                    f"{name:34}{num_shards:7}{opens.total():8}{num_bytes / 1e6:9.1f}{seconds:9.2f}"
                    f"{transfer / 1e6:15.1f}"
                )


if __name__ == "__main__":
    flags.DEFINE_list("shards", ["20", "4000"], "Numbers of shards.")
    flags.DEFINE_integer("records", 100, "Records in a shard.")
    flags.DEFINE_integer("max_seq_length", 128, "Sequence length.")
    flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
    app.run(main)
