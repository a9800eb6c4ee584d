#!/usr/bin/env python3
"""Measure how much one of several hosts reads and computes for its share of the training batches.

    python benchmarks/host_input.py --hosts=8 --streams=1,8

The files are local, so nothing is sent over a network.
"""

import os
import tempfile
import time

from absl import flags
from read_counter import ReadCounter
from record_shards import write_shards

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_integer("hosts", 8, "Number of hosts.")
flags.DEFINE_list("streams", ["1", "8"], "Numbers of streams.")
flags.DEFINE_integer("steps", 1000, "Number of batches to measure, after the first one.")
flags.DEFINE_integer("shards", 16, "Number of shards.")
flags.DEFINE_integer("records", 20000, "Records in a shard.")
flags.DEFINE_integer("max_seq_length", 128, "Sequence length.")
flags.DEFINE_integer("batch_size", 256, "Examples in a batch.")


def measure(folder, paths, lengths, num_streams):
    """Return seconds until the first batch, then MB, processor ms and ms of a later batch."""
    import tensorflow as tf

    from bert_tf.data import input_pipeline, record_files, records

    schema = records.PRETRAINING
    limits = records.limits(schema, bert_tf.BertConfig(vocab_size=30522), lengths)
    data = input_pipeline.TrainingInput(
        paths, schema, lengths, FLAGS.batch_size, 0, limits, sizes=record_files.sizes(paths),
        num_input_streams=num_streams,
    )  # fmt: skip
    context = tf.distribute.InputContext(FLAGS.hosts, 0, FLAGS.hosts)
    with ReadCounter(folder) as counter:
        start = time.perf_counter()
        batches = iter(data.batches(0, context))
        next(batches)
        first_seconds, first_bytes = time.perf_counter() - start, counter.num_bytes()
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(FLAGS.steps):
            next(batches)
        values = (
            (counter.num_bytes() - first_bytes) / 1e6,
            1000 * (time.process_time() - processor),
            1000 * (time.perf_counter() - start),
        )
    return first_seconds, *(value / FLAGS.steps for value in values)


def main():
    lengths = {"S": FLAGS.max_seq_length, "P": 20}
    print(f"{'streams':>9}{'first, s':>10}{'MB':>8}{'processor, ms':>15}{'clock, ms':>11}")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_shards(folder, FLAGS.shards, FLAGS.records, lengths)
        megabytes = sum(map(os.path.getsize, paths)) / 1e6
        for num_streams in map(int, FLAGS.streams):
            first, *rest = measure(folder, paths, lengths, num_streams)
            print("{:9}{:10.2f}{:8.3f}{:15.2f}{:11.2f}".format(num_streams, first, *rest))
    print(f"{megabytes:.0f} MB in all")


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
