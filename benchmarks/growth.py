#!/usr/bin/env python3
r"""Measure how time grows with the length, the batch, the layers and the corpus, and draw it.

    python benchmarks/growth.py --input_file=corpus.txt --vocab_file=vocab.txt \
      --plot_file=growth.png

Training steps of full sequences in float32, one size at a time, and `create_pretraining_data.py` on
the first bytes of a text that is repeated if it is too short. The work of a step is its matrix
products; the work of a corpus is its bytes. A slope is the exponent of a power law between the
smallest and the largest size. Time with a larger slope than its work grows faster than its work.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import step_time
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Text, one sentence per line.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_string("plot_file", None, "Picture to write.", required=True)
flags.DEFINE_list("megabytes", ["1", "10", "100", "1000"], "Sizes of the corpus.")
flags.DEFINE_integer("steps", 7, "Number of measured steps of each size.")

_SCRIPT = os.path.join(os.path.dirname(__file__), "..", "create_pretraining_data.py")
BASE = step_time.Job(
    "train", "float32", layers=4, width=512, heads=8, intermediate=2048, vocab=30522, batch=8,
    length=128, shortest=1.0,
)  # fmt: skip
SIZES = {
    "length": [64, 128, 256, 512],
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "layers": [2, 4, 8, 16, 24],
}


def work(job):
    """Return the number of multiplications of the matrix products in a training step."""
    tokens = job.batch * job.length
    weights = 4 * job.width**2 + 2 * job.width * job.intermediate
    return 3 * job.layers * tokens * (weights + 2 * job.length * job.width)


def step_seconds(job):
    step = step_time.bert_tf_step(job)
    for _ in range(3):
        step()
    spent = []
    for _ in range(FLAGS.steps):
        start = time.perf_counter()
        step()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def corpus_seconds(megabytes, folder):
    with open(FLAGS.input_file, "rb") as reader:
        text = reader.read()
    path = os.path.join(folder, "corpus.txt")
    with open(path, "wb") as writer:
        remaining = int(megabytes * 1e6)
        while remaining > 0:
            remaining -= writer.write(text[:remaining])
    command = [
        sys.executable,
        _SCRIPT,
        f"--input_file={path}",
        f"--vocab_file={FLAGS.vocab_file}",
        f"--output_file={folder}/records_{megabytes:g}",
        f"--num_shards={max(2, round(megabytes / 10))}",
        "--dupe_factor=1",
        "--num_processes=2",
    ]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main(_):
    curves = {}
    for name, values in SIZES.items():
        jobs = [BASE._replace(**{name: value}) for value in values]
        curves[name] = values, list(map(work, jobs)), list(map(step_seconds, jobs))
    with tempfile.TemporaryDirectory() as folder:
        sizes = list(map(float, FLAGS.megabytes))
        curves["corpus, MB"] = sizes, sizes, [corpus_seconds(size, folder) for size in sizes]
    print("| | sizes | seconds | slope of time | slope of work |")
    print("| --- | --- | --- | --- | --- |")
    for name, (sizes, works, seconds) in curves.items():
        slopes = " | ".join(f"{slope(sizes, y):.2f}" for y in (seconds, works))
        listed = ", ".join(f"{size:g}" for size in sizes), ", ".join(f"{s:.3g}" for s in seconds)
        print(f"| {name} | {listed[0]} | {listed[1]} | {slopes} |", flush=True)
    draw(curves)


def slope(sizes, values):
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


def draw(curves):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(13, 3.4), layout="constrained")
    for axis, (name, (sizes, works, seconds)) in zip(axes, curves.items(), strict=True):
        axis.loglog(sizes, seconds, "o-", label=f"time, slope {slope(sizes, seconds):.2f}")
        scaled = [seconds[-1] * x / works[-1] for x in works]
        axis.loglog(
            sizes, scaled, "--", color="gray", label=f"work, slope {slope(sizes, works):.2f}"
        )
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axis.minorticks_off()
        axis.set_xlabel(name)
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds")
    figure.savefig(FLAGS.plot_file, dpi=120)


if __name__ == "__main__":
    app.run(main)
