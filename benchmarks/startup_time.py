#!/usr/bin/env python3
"""Measure how long programs take to start: imports, --help, the first answer.

    python benchmarks/startup_time.py --model=FOLDER

The model is a pre-trained encoder or a classifier of two labels. It is exported, and `predict.py`
answers one line; the pipeline of transformers answers the same line with the same weights. Each
program is a new process; they take turns, and the first turn, which reads from the disk, is left
out.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import helpers
from absl import flags

from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_integer("turns", 5, "Number of runs of each program.")

_PEER = (
    "import sys, transformers\n"
    "answer = transformers.pipeline('text-classification', sys.argv[1])\n"
    "print(answer(sys.stdin.readline()))"
)


def main():
    predict, train = (os.path.join(helpers.ROOT, x) for x in ("predict.py", "run_classifier.py"))
    with tempfile.TemporaryDirectory() as folder:
        helpers.write_classifier(FLAGS.model, folder)
        programs = {
            "`import bert_tf`": ["-c", "import bert_tf"],
            "`import tensorflow`": ["-c", "import tensorflow"],
            "`bert_tf.TextClassifier`": ["-c", "import bert_tf; bert_tf.TextClassifier"],
            "`run_classifier.py --help`": [train, "--help"],
            "first answer of `predict.py`": [predict, f"--model={folder}/float32"],
            "first answer of transformers": ["-c", _PEER, f"{folder}/hugging_face"],
        }
        seconds = {name: [] for name in programs}
        for _ in range(FLAGS.turns + 1):
            for name, arguments in programs.items():
                seconds[name].append(run_seconds(arguments))
    print("| | seconds | from - to |")
    print("| --- | --- | --- |")
    for name, (_, *x) in seconds.items():
        print(f"| {name} | {statistics.median(x):.2f} | {min(x):.2f} - {max(x):.2f} |")


def run_seconds(arguments):
    """Return the seconds of a Python process, which must succeed (--help exits with 1)."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], input="What a meal!\n", capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if done.returncode and arguments[-1] != "--help":
        sys.exit(f"{arguments}: {done.stderr[-2000:]}")
    return seconds


if __name__ == "__main__":
    run(main)
