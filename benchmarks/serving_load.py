#!/usr/bin/env python3
r"""Load test of a model server: each thread sends a request, waits for the answer and repeats.

    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    python benchmarks/serving_load.py --model=/tmp/served --input_file=lines.txt --api=rest

The script starts the stand-in of the tests as a process (tests/serving/serving_stand_in.py:
TensorFlow in Python, not TF Serving) with the model's `batching_parameters.txt`, or uses a running
server with --server and --model_name. It prints requests per second, latencies, and the memory of
the processes after 10 seconds and at the end. A failed request, or memory that grows by more than
--most_growth, is an error.
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

flags.DEFINE_string("model", None, "Exported model, to be served by the stand-in.")
flags.DEFINE_string("server", None, "host:port of a running server, instead of the stand-in.")
flags.DEFINE_string("model_name", "model", "Name of the served model.")
flags.DEFINE_integer("pid", None, "Process ID of that server, to measure its memory.")
flags.DEFINE_string("input_file", None, "Lines in the format of predict.py.", required=True)
flags.DEFINE_enum("api", "rest", ["rest", "grpc"], "Protocol of the requests.")
flags.DEFINE_integer("threads", 8, "Number of client threads.", lower_bound=1)
flags.DEFINE_integer("rows", 1, "Number of lines in a request.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "Duration of the test.")
flags.DEFINE_float(
    "most_growth", 0.05, "Largest relative growth of memory after the first 10 seconds."
)

_STAND_IN = os.path.join(os.path.dirname(__file__), "..", "tests", "serving", "serving_stand_in.py")


def main():
    if bool(FLAGS.model) == bool(FLAGS.server):
        raise bert_tf.UserError("exactly one of --model and --server must be given")
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
                raise bert_tf.UserError("the stand-in did not start; see its last lines above")
            measure(started[FLAGS.api], {"stand-in": process.pid})
        finally:
            process.send_signal(signal.SIGTERM)
            output = process.stdout.read().strip()
        print(f"stand-in: {output}")


def measure(server, pids):
    """Run the load test; `pids` maps names to process IDs whose memory is measured."""
    # Retries would hide requests that the server refuses.
    client = bert_tf.serving.Client(server, FLAGS.model_name, api=FLAGS.api, retries=0)
    lines = (line.rstrip("\r\n") for line in bert_tf.io.files.read_lines(FLAGS.input_file))
    rows = [client.read(line) for line in lines if line]
    if not rows:
        raise bert_tf.UserError(f"--input_file: {FLAGS.input_file} has no lines")
    pids = {**pids, "client": os.getpid()}
    latencies, failed, start = [], [], time.monotonic()

    def send_requests(seed):
        rng = random.Random(seed)
        while time.monotonic() < start + FLAGS.seconds:
            sent = time.monotonic()
            try:
                client(rng.choices(rows, k=FLAGS.rows))
            except Exception as error:  # an exception would only end this thread
                failed.append(error if isinstance(error, bert_tf.UserError) else repr(error))
            else:
                latencies.append(time.monotonic() - sent)

    threads = [
        threading.Thread(target=send_requests, args=(seed,)) for seed in range(FLAGS.threads)
    ]
    for thread in threads:
        thread.start()
    time.sleep(min(10, FLAGS.seconds / 2))
    before = {name: memory(pid) for name, pid in pids.items()}
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    after = {name: memory(pid) for name, pid in pids.items()}
    p50, p99 = np.percentile(latencies, (50, 99)) * 1e3 if latencies else (float("nan"),) * 2
    print(
        f"{FLAGS.api}: {FLAGS.threads} threads, {FLAGS.rows} lines per request, {seconds:.1f} s: "
        f"{len(latencies)} requests, {len(failed)} failed, "
        f"{len(latencies) / seconds:.1f} per second, "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )
    for name in pids:
        print(f"{name}: {before[name]:.0f} MB early, {after[name]:.0f} MB at the end")
    if failed:
        raise bert_tf.UserError(f"{len(failed)} requests failed, the first: {failed[0]}")
    if not latencies:
        raise bert_tf.UserError("no request was answered")
    grown = [name for name in pids if after[name] > before[name] * (1 + FLAGS.most_growth)]
    if grown:
        raise bert_tf.UserError(f"memory grew: {', '.join(grown)}")


def memory(pid):
    """Return the memory of a process in MB; on Linux."""
    with open(f"/proc/{pid}/status", encoding="ascii") as reader:
        (line,) = (line for line in reader if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    bert_tf.cli.flags.run(main, needs_tensorflow=False)
