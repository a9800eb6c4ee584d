#!/usr/bin/env python3
"""Measure how long programs take to start: imports, --help, the first answer.

    python benchmarks/startup_time.py --model=FOLDER

The model is a pre-trained encoder or a classifier of two labels. It is exported, and `predict.py`
answers one line; the pipeline of transformers answers the same line with the same weights. Each
program is a new process; they take turns, and the files are in the cache of the operating system.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS
from bert_tf.pipelines.saving import write_pretrained

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_integer("turns", 5, "Number of runs of each program.")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = (
    "create_pretraining_data.py", "run_pretraining.py", "run_classifier.py", "run_squad.py",
    "run_ner.py", "run_multiple_choice.py", "run_sentence_encoder.py", "extract_features.py",
    "export_model.py", "predict.py",
)  # fmt: skip
LINE = "What a meal!\n"
_PEER = (
    "import sys, transformers\n"
    "answer = transformers.pipeline('text-classification', sys.argv[1])\n"
    "print(answer(sys.stdin.readline()))"
)


def main():
    with tempfile.TemporaryDirectory() as folder:
        served, peer = os.path.join(folder, "served"), os.path.join(folder, "peer")
        write_models(served, peer)
        programs = {
            "`import bert_tf`": ["-c", "import bert_tf"],
            "`bert_tf.TextClassifier`": ["-c", "import bert_tf; bert_tf.TextClassifier"],
            "`import tensorflow`": ["-c", "import tensorflow"],
            "first answer of `predict.py`": [str(ROOT / "predict.py"), f"--model={served}"],
            "first answer of transformers": ["-c", _PEER, peer],
        }
        for name in SCRIPTS:
            programs[f"`{name} --help`"] = [str(ROOT / name), "--help"]
        seconds = {name: [] for name in programs}
        for _ in range(FLAGS.turns + 1):
            for name, arguments in programs.items():
                seconds[name].append(run_seconds(arguments))
    print("| | seconds | from - to |")
    print("| --- | --- | --- |")
    for name, (_, *x) in seconds.items():  # the first turn reads from the disk
        print(f"| {name} | {statistics.median(x):.2f} | {min(x):.2f} - {max(x):.2f} |")


def write_models(served, peer):
    """Write a classifier as an exported model, and as a Hugging Face folder."""
    classifier = bert_tf.TextClassifier.from_preset(FLAGS.model, labels=["0", "1"])
    classifier.export(served)
    tokenizer = bert_tf.FullTokenizer(classifier.config.vocab_file)
    tensors = bert_tf.checkpoints.tensors(classifier.model)
    write_pretrained(peer, tensors, classifier.model.config, tokenizer)


def run_seconds(arguments):
    """Return the seconds of a Python process, which must answer and succeed (--help exits 1)."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], input=LINE, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode and arguments[-1] != "--help":
        sys.exit(f"{arguments}: {done.stderr[-2000:]}")
    return seconds


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
