#!/usr/bin/env python3
r"""Load test of TF Serving by REST: each thread sends a request, waits for the answer and repeats.

    python benchmarks/serving_load.py --server=localhost:8501 --model_name=cola \
      --input_file=rows.jsonl

Each line of --input_file is a row of the model's inputs as a JSON object, such as {"text": "a"}.
The script prints requests per second, latencies and failed requests.
"""

import json
import random
import threading
import time

import numpy as np
import requests
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_string("server", "localhost:8501", "host:port of the REST API.")
flags.DEFINE_string("model_name", "model", "Name of the served model.")
flags.DEFINE_string("input_file", None, "File of JSON rows.", required=True)
flags.DEFINE_integer("threads", 8, "Number of client threads.", lower_bound=1)
flags.DEFINE_integer("rows", 1, "Number of rows in a request.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "Duration of the test.")


def main():
    url = f"http://{FLAGS.server}/v1/models/{FLAGS.model_name}:predict"
    rows = [json.loads(line) for line in bert_tf.io.files.read_lines(FLAGS.input_file)]
    latencies, failed, start = [], [], time.monotonic()

    def send_requests(seed):
        rng, session = random.Random(seed), requests.Session()
        while time.monotonic() < start + FLAGS.seconds:
            sent = time.monotonic()
            try:
                body = {"instances": rng.choices(rows, k=FLAGS.rows)}
                session.post(url, json=body, timeout=60).raise_for_status()
            except requests.RequestException as error:
                failed.append(error)
            else:
                latencies.append(time.monotonic() - sent)

    threads = [threading.Thread(target=send_requests, args=(i,)) for i in range(FLAGS.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    if failed:
        raise bert_tf.UserError(f"{len(failed)} requests failed, the first: {failed[0]}")
    p50, p99 = np.percentile(latencies, (50, 99)) * 1e3
    print(f"{len(latencies) / seconds:.1f} requests per second, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


if __name__ == "__main__":
    run(main, needs_tensorflow=False)
