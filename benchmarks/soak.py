#!/usr/bin/env python3
r"""Soak test of an exported model: the memory must stay flat over many hostile and normal texts.

    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    TF_ENABLE_ONEDNN_OPTS=0 python benchmarks/soak.py --model=/tmp/served

The model runs in this process, as in TF Serving without batching. Texts of a few dozen shapes come
in an order that depends on --seed, so all shapes are part of the warm-up. An exception, or memory
that grows by more than --most_growth after the warm-up, is an error. TensorFlow's oneDNN caches
data for each shape and thread, so the memory is flat without it, or with a model that was exported
with --sequence_buckets.
"""

import os
import random
import threading
import time

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Exported model.", required=True)
flags.DEFINE_integer("requests", 10_000, "Number of requests after the warm-up.", lower_bound=1)
flags.DEFINE_integer("warm_up", 2_000, "Number of requests before it.", lower_bound=1)
flags.DEFINE_integer("threads", 8, "Number of client threads.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the texts.")
flags.DEFINE_float("most_growth", 0.01, "Largest relative growth of memory after the warm-up.")

NORMAL = ["", "He slept.", "A long day in the mountains, with rain at night. " * 4, "naïve café"]
HOSTILE = [
    b"\xff\xfe\x80", b"a\0b", b"[CLS] [SEP] [MASK]", "\U0001f600".encode() * 50, b"\n\t \xc2\xa0",
    b"a" * 20_000, b"ab " * 5_000, b" " * 20_000 + b"a", "\u0301".encode() * 5_000,
    "\u4e2d".encode() * 3_000, "\u03a3".encode() * 3_000, "\U0001d160".encode() * 1_000,
    "e\u0301\u200b\ufeff".encode() * 1_000, bytes(range(256)) * 40,
]  # fmt: skip


def main():
    predictor = bert_tf.serving.Predictor(FLAGS.model)
    for number, count in enumerate((FLAGS.warm_up, FLAGS.requests)):
        start, before = time.process_time(), memory()
        send(predictor, count, FLAGS.seed + number)
        seconds, after = time.process_time() - start, memory()
        print(
            f"{('warm-up', 'soak')[number]}: {count} requests in {FLAGS.threads} threads, "
            f"{seconds / count * 1e3:.1f} ms of processor time each, memory {before:.0f} MB before "
            f"and {after:.0f} MB after"
        )
    if after > before * (1 + FLAGS.most_growth):
        raise bert_tf.UserError(f"memory grew by {100 * (after / before - 1):.1f} %")


def send(predictor, count, seed):
    """Answer `count` requests in all threads together; raise the first exception of a thread."""
    rng = random.Random(seed)
    requests, failed, lock = iter(range(count)), [], threading.Lock()

    def answer():
        while not failed:
            with lock:
                if next(requests, None) is None:
                    return
                rows = [row_of(predictor, rng) for _ in range(rng.choice((1, 1, 1, 4)))]
            try:
                predictor(rows)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=answer) for _ in range(FLAGS.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def memory():
    """Return the memory of this process in MB; on Linux."""
    with open("/proc/self/statm", encoding="ascii") as reader:
        return int(reader.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def row_of(predictor, rng):
    """Return a random row of the inputs of the model."""
    values = {"numbers": [0.0] * predictor.num_numeric_features}
    for name in predictor.inputs:
        if name != "numbers":
            text = rng.choice(HOSTILE if rng.random() < 0.5 else NORMAL)
            values[name] = [text, rng.choice(NORMAL)] if name == "endings" else text
    return {name: values[name] for name in predictor.inputs}


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
