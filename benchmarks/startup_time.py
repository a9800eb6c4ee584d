#!/usr/bin/env python3
"""Measure how long programs take to start: imports, --help, the first answer.

    python benchmarks/startup_time.py --model=FOLDER

The model is a pre-trained encoder or a classifier of two labels. It is exported, and `predict.py`
answers one line; the pipeline of transformers answers the same line with the same weights. Each
program is a new process; they take turns, and the first turn, which reads from the disk, is left
out.
"""

import functools
import os
import statistics
import subprocess
import sys
import tempfile

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
        programs = {name: functools.partial(start, *words) for name, words in programs.items()}
        seconds = helpers.take_turns(programs, FLAGS.turns + 1)
    helpers.print_head("", "seconds", "from - to")
    for name, (_, *x) in seconds.items():
        helpers.print_row(name, f"{statistics.median(x):.2f}", f"{min(x):.2f} - {max(x):.2f}")


def start(*arguments):
    """Run a Python process, which must succeed."""
    command = [sys.executable, *arguments]
    subprocess.run(
        command, input="What a meal!\n", stdout=subprocess.DEVNULL, text=True, check=True
    )


if __name__ == "__main__":
    run(main)
