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

from absl import flags
from record_shards import write_shards

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_integer("shards", 10000, "Number of shards.")
flags.DEFINE_integer("records", 100, "Records in a shard.")
flags.DEFINE_integer("texts", 1000, "Number of text files.")
flags.DEFINE_integer("milliseconds", 75, "Duration of a call.")
flags.DEFINE_integer("max_seq_length", 24, "Sequence length.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_list("only", [], "Start of the names of cases to measure; all by default.")

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


def make_shards(folder, work_dir):
    """Return the `Shards` of the texts in a folder; without a work folder they are on the store."""
    from bert_tf.data import pretraining

    paths = bert_tf.io.files.expand(f"file://{folder}/texts/*", "input_file")
    tokenizer = bert_tf.FullTokenizer(os.path.join(folder, "vocab.txt"))
    return pretraining.Shards(
        pretraining.FileSource(paths), f"file://{folder}/records/x", tokenizer,
        pretraining.InstanceConfig(), FLAGS.shards, work_dir,
    )  # fmt: skip


def create(folder, work_dir=None):
    """Start create_pretraining_data.py; no local work folder simulates Beam."""
    shards = make_shards(folder, work_dir)

    def create_missing():
        shards.missing()
        raise Started

    with contextlib.suppress(Started):
        shards.create_with(create_missing)


def train(folder, step=0, num_hosts=1, num_streams=1):
    """Start run_pretraining.py at a step, on the first of several hosts."""
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
    if step:
        data.train.load_counts(os.path.join(config.output_dir, "records.counts.json"))
    context = tf.distribute.InputContext(num_hosts, 0, num_hosts)
    next(iter(data.train.batches(step, context)))


class Store:
    """A folder with texts and the shards of a finished run of create_pretraining_data.py."""

    def __init__(self, folder):
        self._folder, self._num_shards = folder, FLAGS.shards
        for name in ("texts", "records", "work"):
            os.mkdir(os.path.join(folder, name))
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
        self._write("vocab.txt", "\n".join(words))
        for number in range(FLAGS.texts):
            self._write(f"texts/{number:05d}.txt", "a b\na\n")
        lengths = {"S": FLAGS.max_seq_length, "P": 20}
        (path,) = write_shards(folder, 1, FLAGS.records, lengths)
        for shard in range(self._num_shards):
            os.link(path, self._shard(shard))
        shards = make_shards(folder, None)
        counts = {"documents": 1, "instances": FLAGS.records}
        self._counts = bert_tf.data.pretraining.Counts(**counts)._asdict()
        self._fingerprint = shards._fingerprint
        self.write_metadata(is_complete=True)
        bert_tf.data.record_files.write_counts(dict.fromkeys(shards.paths(), FLAGS.records))

    def _write(self, name, text):
        with open(os.path.join(self._folder, name), "w") as writer:
            writer.write(text)

    def _shard(self, shard):
        name = f"x-{shard:05d}-of-{self._num_shards:05d}"
        return os.path.join(self._folder, "records", name)

    def write_metadata(self, is_complete):
        """Write the metadata of a finished or an unfinished set of shards."""
        metadata = {"made_of": self._fingerprint}
        if is_complete:
            metadata["shards"] = [self._counts] * self._num_shards
        self._write("records/x.json", json.dumps(metadata))

    def remove_shards(self, fraction):
        """Remove some of the shards, at least one."""
        for shard in range(max(1, int(self._num_shards * fraction))):
            os.remove(self._shard(shard))

    def write_work_dir(self, name):
        """Write the work folder of the existing shards."""
        from bert_tf.data.pretraining.workdir import to_json

        os.makedirs(os.path.join(self._folder, name))
        self._write(f"{name}/made_of.json", to_json(self._fingerprint))
        for shard in filter(lambda x: os.path.exists(self._shard(x)), range(self._num_shards)):
            self._write(f"{name}/{shard:05d}.json", json.dumps(self._counts))


def finished(store):
    """Leave the finished set as it is."""


def without_counts(store):
    """Remove the file with the numbers of records."""
    os.remove(os.path.join(store._folder, "records", "x.counts.json"))


def one_missing(store):
    """Remove one of the finished shards."""
    store.remove_shards(0)


def half_missing(store, work_dir):
    """Interrupt the creation after half of the shards."""
    store.remove_shards(0.5)
    store.write_metadata(is_complete=False)
    store.write_work_dir(work_dir)


# For each case: the change to the finished set, and the program to start.
CASES = {
    "create, finished": (finished, create),
    "create, without counts": (without_counts, create),
    "create, one missing": (one_missing, lambda x: create(x, f"{x}/work")),
    "create, one missing, Beam": (one_missing, create),
    "create, half missing": (
        lambda store: half_missing(store, "work/x.work"),
        lambda x: create(x, f"{x}/work"),
    ),
    "create, half missing, Beam": (lambda store: half_missing(store, "records/x.work"), create),
    "train": (finished, train),
    "train, step 1000": (finished, lambda x: train(x, 1000)),
    "train, host 1 of 8": (finished, lambda x: train(x, 0, 8)),
    "train, host 1 of 8, 8 streams": (finished, lambda x: train(x, 0, 8, 8)),
}


def main():
    print(f"{'':34}{'calls':>9}{'seconds':>9}")
    for name, (prepare, start) in CASES.items():
        if FLAGS.only and not name.startswith(tuple(FLAGS.only)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            prepare(Store(folder))
            with SlowStore(FLAGS.milliseconds / 1000) as store:
                begin = time.perf_counter()
                start(folder)
                seconds = time.perf_counter() - begin
            print(f"{name:34}{store.num_calls:9,}{seconds:9.1f}", flush=True)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
