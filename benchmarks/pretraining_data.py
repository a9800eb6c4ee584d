#!/usr/bin/env python3
"""Measure the speed and memory of making pre-training data, compared with the release.

Every figure covers a whole process and its children, from command line to files: total processor
seconds, processor seconds of the workers alone, and the peak memory of all processes together
(shared pages counted once, sampled every half second). Processor time is less sensitive to other
work on the machine than wall-clock time.

    python benchmarks/pretraining_data.py --input_file=corpus.txt --vocab_file=vocab.txt

--release_dir measures the release's own code too; it is the folder `bert` of the unpacked package
bert-tensorflow 1.0.4. --megabytes repeats and shuffles the documents of the text up to that size.

    python benchmarks/pretraining_data.py --input_file=corpus.txt --vocab_file=vocab.txt \
      --megabytes=2000 --dupe_factor=1 --num_shards=40 --processes=2
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import helpers
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Text, one sentence per line.", required=True)
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_string("release_dir", None, "Folder with the release's create_pretraining_data.py.")
flags.DEFINE_integer("dupe_factor", 10, "Flag of create_pretraining_data.py.")
flags.DEFINE_integer("num_shards", 2, "Flag of create_pretraining_data.py.")
flags.DEFINE_list("processes", ["1", "2"], "Numbers of processes to measure.")
flags.DEFINE_integer("megabytes", 0, "Size to repeat the text to; 0 leaves it as it is.")
flags.DEFINE_integer("turns", 1, "Number of turns.")
flags.DEFINE_string("folder", None, "Output folder; a temporary folder by default.")

# Runs a script and prints the processor seconds of the script and of its workers.
RUN = """
import os, resource, runpy, sys
sys.argv = sys.argv[1:]
try:
    if sys.argv[0].endswith(".py"):
        sys.path.insert(0, os.path.dirname(sys.argv[0]))  # as Python does for a script
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:  # TensorFlow 1 is what the release's code expects
        import tensorflow
        sys.modules["tensorflow"] = tensorflow.compat.v1
        sys.path.insert(0, sys.argv[0])
        runpy.run_module("bert.create_pretraining_data", run_name="__main__", alter_sys=True)
except SystemExit as stopped:
    assert not stopped.code
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime)
"""


def repeated(folder):
    """Write the text repeated to a size, documents in random order, and return its path."""
    with open(FLAGS.input_file, encoding="utf-8") as reader:
        documents = [text.strip("\n") + "\n\n" for text in reader.read().split("\n\n")]
    rng, path, left = random.Random(0), os.path.join(folder, "corpus.txt"), FLAGS.megabytes * 10**6
    with open(path, "w", encoding="utf-8") as writer:
        while left > 0:
            rng.shuffle(documents)
            for document in documents:
                if left > 0:
                    left -= len(writer.write(document) and document.encode())
    return path


def megabytes_of(process):
    """Return the memory of a process and its descendants in MB."""
    total, pending = 0, [process]
    while pending:
        number = pending.pop()
        try:
            for thread in os.listdir(f"/proc/{number}/task"):
                with open(f"/proc/{number}/task/{thread}/children", encoding="ascii") as reader:
                    pending += reader.read().split()
            with open(f"/proc/{number}/smaps_rollup", encoding="ascii") as reader:
                total += sum(int(line.split()[1]) for line in reader if line.startswith("Pss:"))
        except OSError:  # the process has just ended
            continue
    return total / 1000


def run(*command):
    """Return processor seconds of the process and its workers, wall-clock seconds and peak MB."""
    start, peak = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *map(str, command)], stdout=output, stderr=output
        )
        while process.poll() is None:
            peak = max(peak, megabytes_of(process.pid))
            time.sleep(0.5)
        output.seek(0)
        lines = output.read().splitlines()
    if process.returncode:
        raise SystemExit("\n".join(lines))
    own, workers = map(float, lines[-2:])
    return own, workers, time.monotonic() - start, peak


def main(_):
    with tempfile.TemporaryDirectory(dir=FLAGS.folder) as folder:
        text = repeated(folder) if FLAGS.megabytes else FLAGS.input_file
        script = os.path.join(helpers.ROOT, "create_pretraining_data.py")
        common = [f"--input_file={text}", f"--vocab_file={FLAGS.vocab_file}",
                  f"--dupe_factor={FLAGS.dupe_factor}"]  # fmt: skip
        commands = {}
        if FLAGS.release_dir:
            release = os.path.dirname(os.path.abspath(FLAGS.release_dir))
            commands["the release"] = [release, *common, f"--output_file={folder}/release"]
        commands["bert_tf"] = [script, *common, f"--output_file={folder}/bert_tf"]
        for count in FLAGS.processes:
            name = f"{FLAGS.num_shards} shards, {count} process{'es' * (count != '1')}"
            output = f"--output_file={folder}/shards-{count}/x"
            sizes = f"--num_shards={FLAGS.num_shards}", f"--num_processes={count}"
            commands[name] = [script, *common, output, *sizes]
        print(f"{os.path.getsize(text) / 1e6:.1f} MB of text, dupe_factor {FLAGS.dupe_factor}")
        helpers.print_head("", "processor, s", "of which workers", "clock, s", "MB")
        for _ in range(FLAGS.turns):
            for name, command in commands.items():
                for count in FLAGS.processes:
                    shutil.rmtree(f"{folder}/shards-{count}", ignore_errors=True)
                own, workers, clock, peak = run(*command)
                numbers = f"{own + workers:.2f}", f"{workers:.2f}", f"{clock:.1f}", f"{peak:.0f}"
                helpers.print_row(name, *numbers)


if __name__ == "__main__":
    app.run(main)
