#!/usr/bin/env python3
"""Measure how long programs take to start with thousands of shards on an object store.

The store is simulated by a folder that TensorFlow accesses; each call takes as long as a call to an
object store. A listing takes one call per 1,000 names, and reading a file takes one call. The
shards are links to a single file. create_pretraining_data.py runs on complete and incomplete sets
of shards; it has started when it would create its first shard. The input of run_pretraining.py has
started when its first batch is available.

    python benchmarks/shard_startup.py --shards=10000 --records=100 --milliseconds=75
"""

import contextlib
import json
import os
import tempfile
import threading
import time
from unittest import mock

import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_integer("shards", 10000, "Number of shards.")
flags.DEFINE_integer("records", 100, "Records in a shard.")
flags.DEFINE_integer("texts", 1000, "Number of text files.")
flags.DEFINE_integer("milliseconds", 75, "Duration of a call.")
flags.DEFINE_integer("max_seq_length", 24, "Sequence length.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")

_NAMES_PER_LISTING = 1000


class SlowStore:
    """Delays and counts the calls to TensorFlow's file systems, and files read by tf.data.

    >>> with SlowStore(seconds=0.075) as store:
    ...     use_remote_files()
    ... print(store.num_calls)
    """

    def __init__(self, seconds):
        self.num_calls, self._seconds = 0, seconds
        self._lock = threading.Lock()

    def __enter__(self):
        import tensorflow as tf
        from tensorflow.python.data.experimental.ops import testing

        self._stack = contextlib.ExitStack()
        for name in ("exists", "isdir", "stat", "remove", "makedirs", "rename", "GFile"):
            self._replace(tf.io.gfile, name, self._delayed(getattr(tf.io.gfile, name)))
        for name in ("listdir", "glob"):
            self._replace(tf.io.gfile, name, self._listing(getattr(tf.io.gfile, name)))
        dataset = tf.data.TFRecordDataset

        def count(path):
            self._add(1)
            return path

        def read(path):
            return dataset(tf.ensure_shape(tf.numpy_function(count, [path], tf.string), ()))

        def slow_dataset(path):
            paths = tf.data.Dataset.from_tensors(path)
            # Wait in the thread that reads the file, as a file system would.
            paths = paths.apply(testing.sleep(int(1e6 * self._seconds))).take(1)
            return paths.flat_map(read)

        self._replace(tf.data, "TFRecordDataset", slow_dataset)
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _replace(self, module, name, function):
        self._stack.enter_context(mock.patch.object(module, name, function))

    def _add(self, count):
        with self._lock:
            self.num_calls += count

    def _wait(self, count=1):
        self._add(count)
        time.sleep(count * self._seconds)

    def _delayed(self, function):
        def call(*args, **options):
            self._wait()
            return function(*args, **options)

        return call

    def _listing(self, function):
        def call(path):
            names = function(path)
            self._wait(1 + len(names) // _NAMES_PER_LISTING)
            return names

        return call


class Started(Exception):
    """Raised when the first shard would be created."""


def make_shards(folder):
    """Return the `Shards` of the texts in a folder, with their work folder on the local disk."""
    from bert_tf.data import pretraining

    paths = bert_tf.io.files.expand(f"file://{folder}/texts/*", "input_file")
    tokenizer = bert_tf.FullTokenizer(os.path.join(folder, "vocab.txt"))
    return pretraining.Shards(
        pretraining.FileSource(paths), f"file://{folder}/records/x", tokenizer,
        pretraining.InstanceConfig(), FLAGS.shards, f"{folder}/work",
    )  # fmt: skip


def create(folder):
    """Start create_pretraining_data.py."""
    shards = make_shards(folder)

    def create_missing():
        shards.missing()
        raise Started

    with contextlib.suppress(Started):
        shards.create_with(create_missing)


def train(folder, num_hosts=1, num_streams=1):
    """Start run_pretraining.py on the first of several hosts."""
    import tensorflow as tf

    from bert_tf import BertConfig
    from bert_tf.configs.pretraining import PretrainingConfig
    from bert_tf.configs.train import TrainConfig
    from bert_tf.training.pretraining import PretrainingData

    config = PretrainingConfig(
        f"file://{folder}/records/x-?????-of-?????",
        f"file://{folder}/run",
        max_seq_length=FLAGS.max_seq_length,
        num_input_streams=num_streams,
        train=TrainConfig(train_batch_size=FLAGS.batch_size),
    )
    data = PretrainingData(config, BertConfig(vocab_size=30522))
    data.check()
    context = tf.distribute.InputContext(num_hosts, 0, num_hosts)
    next(iter(data.train.batches(0, context)))


def write_records(path):
    """Write a shard of random instances."""
    from bert_tf.data import tfrecord

    ids = np.random.default_rng(0).integers(5, 30000, (FLAGS.records, FLAGS.max_seq_length))
    features = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": np.tile(np.arange(20), (FLAGS.records, 1)),
        "masked_lm_ids": ids[:, :20],
        "masked_lm_weights": np.ones((FLAGS.records, 20), np.float32),
        "next_sentence_labels": ids[:, :1] % 2,
    }
    with open(path, "wb") as writer:
        writer.write(tfrecord.frame_records(tfrecord.examples(features)))


def write_store(folder, is_finished):
    """Write texts and their shards, of which half are missing if `is_finished` is false."""
    from bert_tf.data import pretraining, record_files
    from bert_tf.data.pretraining.workdir import to_json

    def write(name, text):
        with open(os.path.join(folder, name), "w") as writer:
            writer.write(text)

    for name in ("texts", "records", "work"):
        os.mkdir(os.path.join(folder, name))
    write("vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]))
    for number in range(FLAGS.texts):
        write(f"texts/{number:05d}.txt", "a b\na\n")
    write_records(os.path.join(folder, "shard"))
    for shard in range(0 if is_finished else FLAGS.shards // 2, FLAGS.shards):
        name = f"x-{shard:05d}-of-{FLAGS.shards:05d}"
        os.link(os.path.join(folder, "shard"), os.path.join(folder, "records", name))
    shards = make_shards(folder)
    counts = pretraining.Counts(documents=1, instances=FLAGS.records)._asdict()
    metadata = {"made_of": shards._fingerprint}
    if is_finished:
        metadata["shards"] = [counts] * FLAGS.shards
        record_files.write_counts(dict.fromkeys(shards.paths(), FLAGS.records))
    else:
        write("work/made_of.json", to_json(shards._fingerprint))
        for shard in range(FLAGS.shards // 2, FLAGS.shards):
            write(f"work/{shard:05d}.json", json.dumps(counts))
    write("records/x.json", json.dumps(metadata))


# For each case: whether data creation has finished, and the program to start.
CASES = {
    "create, finished": (True, create),
    "create, half of the shards missing": (False, create),
    "train": (True, train),
    "train on the first of 8 hosts": (True, lambda x: train(x, 8)),
    "the same with 8 streams": (True, lambda x: train(x, 8, 8)),
}


def main():
    print("| | calls | seconds |\n| --- | --- | --- |")
    for name, (is_finished, start) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            write_store(folder, is_finished)
            with SlowStore(FLAGS.milliseconds / 1000) as store:
                begin = time.perf_counter()
                start(folder)
                seconds = time.perf_counter() - begin
            print(f"| {name} | {store.num_calls:,} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    run(main)
