"""Shared by the benchmarks: processes that take turns, models for several libraries, ratios."""

import concurrent.futures
import dataclasses
import json
import os
import random
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Worker:
    """A process of the running script with `--serve=SETTINGS`, which calls `serve`.

    Libraries in separate processes do not share threads. They take turns, so that other work on the
    machine affects all of them alike.
    """

    def __init__(self, *settings, python=sys.executable):
        self._process = subprocess.Popen(
            [python, *sys.argv, f"--serve={json.dumps(settings)}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.first = self._read()  # other workers start after this one is ready

    def ask(self, order=None):
        self._process.stdin.write(json.dumps(order) + "\n")
        return self._read()

    def _read(self):
        line = self._process.stdout.readline()
        return json.loads(line) if line else sys.exit("a worker stopped; see the lines above")

    def close(self):
        self._process.communicate()


def serve(start):
    """Answer the orders of a `Worker`.

    Args:
      start: function that returns the first answer and a function from an order to its answer.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print to standard output
    first, answer = start()
    print(json.dumps(first), file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers)


def ratio(times, baseline):
    """Return the median ratio of neighboring turns."""
    return statistics.median(a / b for a, b in zip(times, baseline, strict=True))


def take_turns(functions, turns):
    """Call the functions in turn; return a dict from their names to lists of seconds."""
    seconds = {name: [] for name in functions}
    for _ in range(turns):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def request_latencies(make_client, clients, seconds):
    """Return the seconds of each request of clients that send, wait for the answer and repeat.

    Args:
      make_client: function from a random generator to a function that sends a request.
      clients: number of clients, which are threads.
      seconds: duration.
    """
    latencies, end = [], time.monotonic() + seconds

    def repeat(seed):
        send = make_client(random.Random(seed))
        while time.monotonic() < end:
            start = time.perf_counter()
            send()
            latencies.append(time.perf_counter() - start)

    with concurrent.futures.ThreadPoolExecutor(clients) as threads:
        list(threads.map(repeat, range(clients)))
    return latencies


def print_row(*cells):
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def print_head(*names):
    print_row(*names)
    print_row(*["---"] * len(names))


def read_rows(path, count=None):
    """Return the lines of a text file as lists of one or two texts, which a tab separates."""
    with open(path, encoding="utf-8") as reader:
        rows = [line.rstrip("\n").split("\t") for line in reader if line.strip()]
    return rows[:count]


def write_classifier(model, folder, num_texts=1, dtypes=("float32",)):
    """Write a classifier of two labels for bert_tf and for other libraries.

    Args:
      model: folder of a pre-trained encoder, which gets a random head, or of a classifier.
      folder: output folder. `folder/DTYPE` is an exported model, `folder/hugging_face` a Hugging
        Face folder.
      num_texts: number of texts of an example.
      dtypes: types of the exported SavedModels; "onnx" for an ONNX model.
    """
    import bert_tf

    classifier = bert_tf.TextClassifier.from_preset(model, labels=["0", "1"])
    classifier.config = dataclasses.replace(classifier.config, num_texts=num_texts)
    for dtype in dtypes:
        options = {"format": "onnx"} if dtype == "onnx" else {"dtype": dtype}
        classifier.export(os.path.join(folder, dtype), **options)
    bert_tf.checkpoints.write_hugging_face(
        os.path.join(folder, "hugging_face"),
        bert_tf.checkpoints.tensors(classifier.model),
        classifier.model.config,
        classifier.config.vocab_file,
    )
