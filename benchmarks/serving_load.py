#!/usr/bin/env python3
r"""Loads a model server: threads that each ask, wait for the answer and ask again.

    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    python benchmarks/serving_load.py --model=/tmp/served --input_file=lines.txt --api=rest

It starts the stand-in of the tests as a process (tests/serving/serving_stand_in.py: TensorFlow in Python,
not TF Serving) with the model's `batching_parameters.txt`, or asks a server that is there, with
--server and --model_name. It prints how many requests a second were answered, in what time, and
the memory of the processes after 10 seconds and at the end. A request that fails, or memory that
grows by more than --most_growth, is an error.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Folder of export_model.py, for the stand-in to serve.")
flags.DEFINE_string("server", None, "host:port of a server that is there, and no stand-in.")
flags.DEFINE_string("model_name", "model", "Name of the model at the server.")
flags.DEFINE_integer("pid", None, "Process of that server, for its memory.")
flags.DEFINE_string("input_file", None, "Lines, as predict.py takes them.", required=True)
flags.DEFINE_enum("api", "rest", ["rest", "grpc"], "How to ask.")
flags.DEFINE_integer("threads", 8, "Threads that ask.", lower_bound=1)
flags.DEFINE_integer("rows", 1, "Lines of a request.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "How long.")
flags.DEFINE_float("most_growth", 0.05, "Memory at the end over that after 10 seconds, less 1.")

_STAND_IN = os.path.join(os.path.dirname(__file__), "..", "tests", "serving", "serving_stand_in.py")


def main():
    if bool(FLAGS.model) == bool(FLAGS.server):
        raise bert_tf.UserError("one of --model and --server was expected")
    if FLAGS.server:
        measure(FLAGS.server, {"server": FLAGS.pid} if FLAGS.pid else {})
        return
    command = [
        sys.executable, _STAND_IN, f"--model={FLAGS.model}", f"--name={FLAGS.model_name}",
        f"--batching_parameters_file={FLAGS.model}/batching_parameters.txt",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = json.loads(process.stdout.readline() or "null")
            if started is None:
                raise bert_tf.UserError("the stand-in does not start; its last lines say why")
            measure(started[FLAGS.api], {"stand-in": process.pid})
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.stdout.read().strip()
        print(f"stand-in: {said}")


def measure(server, pids):
    """Asks and prints; `pids` are processes by the names to print."""
    # To ask again would hide what the server refuses.
    client = bert_tf.serving.Client(server, FLAGS.model_name, api=FLAGS.api, retries=0)
    lines = (line.rstrip("\r\n") for line in bert_tf.files.read_lines(FLAGS.input_file))
    rows = [client.read(line) for line in lines if line]
    if not rows:
        raise bert_tf.UserError(f"--input_file: {FLAGS.input_file} has no line to ask for")
    pids = {**pids, "client": os.getpid()}
    took, failed, start = [], [], time.monotonic()

    def ask(seed):
        rng = random.Random(seed)
        while time.monotonic() < start + FLAGS.seconds:
            began = time.monotonic()
            try:
                client(rng.choices(rows, k=FLAGS.rows))
            except Exception as error:  # a thread that dies says nothing
                failed.append(error if isinstance(error, bert_tf.UserError) else repr(error))
            else:
                took.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(FLAGS.threads)]
    for thread in threads:
        thread.start()
    time.sleep(min(10, FLAGS.seconds / 2))
    before = {name: memory(pid) for name, pid in pids.items()}
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    after = {name: memory(pid) for name, pid in pids.items()}
    p50, p99 = np.percentile(took, (50, 99)) * 1e3 if took else (float("nan"),) * 2
    print(
        f"{FLAGS.api}: {FLAGS.threads} threads, {FLAGS.rows} lines a request, {seconds:.1f} s: "
        f"{len(took)} requests, {len(failed)} failed, {len(took) / seconds:.1f} a second, "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )
    for name in pids:
        print(f"{name}: {before[name]:.0f} MB early, {after[name]:.0f} MB at the end")
    if failed:
        raise bert_tf.UserError(f"{len(failed)} requests failed, the first: {failed[0]}")
    if not took:
        raise bert_tf.UserError("no request was answered")
    grown = [name for name in pids if after[name] > before[name] * (1 + FLAGS.most_growth)]
    if grown:
        raise bert_tf.UserError(f"memory grew: {', '.join(grown)}")


def memory(pid):
    """What a process holds in memory now, in MB; of Linux."""
    with open(f"/proc/{pid}/status", encoding="ascii") as reader:
        (line,) = (line for line in reader if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    bert_tf.cli.flags.run(main, needs_tensorflow=False)
