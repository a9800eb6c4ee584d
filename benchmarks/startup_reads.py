#!/usr/bin/env python3
"""Count the files and bytes that a pre-training run reads before its first step.

The files are random. Like run_pretraining.py, every case lists and checks the files, finds the
number of records if it resumes, and reads the batch of the first step.
Opened files are counted by inotify, and bytes by the counters of the process (Linux only). An
object store transfers up to 64 MB when a file is opened, which the last column estimates.

    python benchmarks/startup_reads.py --shards=20,4000 --records=100
"""

import os
import tempfile
import time

from absl import flags
from read_counter import ReadCounter
from record_shards import write_shards

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_list("shards", ["20", "4000"], "Numbers of shards.")
flags.DEFINE_integer("records", 100, "Records in a shard.")
flags.DEFINE_integer("max_seq_length", 128, "Sequence length.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")

_OBJECT_STORE_BLOCK = 64 << 20

CASES = {
    "fresh": {"step": 0, "counts": True},
    "resumed at step 1": {"step": 1, "counts": True},
    "resumed at step 1,000,000": {"step": 1_000_000, "counts": True},
    "the same, without counts": {"step": 1_000_000, "counts": False},
    "the same, counted before": {"step": 1_000_000, "counts": False},
}


def measure(folder, step, output_dir, lengths, batch_size):
    """Return (opened files, bytes, seconds) before the batch of a step is ready."""
    from bert_tf import BertConfig
    from bert_tf.configs.pretraining import PretrainingConfig
    from bert_tf.configs.train import TrainConfig
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


def main():
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
    bert_tf.cli.flags.run(main)
