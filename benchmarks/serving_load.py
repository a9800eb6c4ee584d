#!/usr/bin/env python3
r"""Load test of TF Serving by REST: each thread sends a request, waits for the answer and repeats.

    python benchmarks/serving_load.py --server=localhost:8501 --model_name=cola \
      --input_file=rows.jsonl

Each line of --input_file is a row of the model's inputs as a JSON object, such as {"text": "a"}.
The script prints requests per second and latencies. A failed request ends it.
"""

import json

import helpers
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

    def make_client(rng):
        session = requests.Session()

        def send():
            body = {"instances": rng.choices(rows, k=FLAGS.rows)}
            session.post(url, json=body, timeout=60).raise_for_status()

        return send

    try:
        latencies = helpers.request_latencies(make_client, FLAGS.threads, FLAGS.seconds)
    except requests.RequestException as error:
        raise bert_tf.UserError(f"a request failed: {error}") from None
    p50, p99 = np.percentile(latencies, (50, 99)) * 1e3
    rate = len(latencies) / FLAGS.seconds
    print(f"{rate:.1f} requests per second, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


if __name__ == "__main__":
    run(main, needs_tensorflow=lambda: False)
