#!/usr/bin/env python3
r"""Measure how long a single text takes, with one client and with several.

    python benchmarks/latency.py --model=FOLDER --input_file=lines.txt

All libraries have the same weights, with a random head for two labels, and a process of their own:
an exported model in `serving.Predictor`, the pipeline of transformers, and ONNX Runtime after the
tokenizer of Hugging Face. ONNX Runtime's model is exported by `torch.onnx` and fused by
`onnxruntime.transformers.optimizer`. Clients are threads that send a line (a text, or two separated
by a tab), wait for the answer and repeat. The libraries take turns.
"""

import dataclasses
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS
from bert_tf.pipelines.saving import write_pretrained

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_string("input_file", None, "Text file, one or two texts per line.", required=True)
flags.DEFINE_list("clients", ["1", "8"], "Numbers of clients.")
flags.DEFINE_float("seconds", 5.0, "Duration of a turn.")
flags.DEFINE_integer("turns", 4, "Number of turns.")
flags.DEFINE_integer("num_lines", 1000, "Number of lines to choose from.")
flags.DEFINE_integer("threads", None, "Threads of an operation. Default: the library's default.")
flags.DEFINE_string("library", None, "Serve only this library; used by the script itself.")


def bert_tf_answer(folder, dtype="float32"):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(FLAGS.threads or 0)
    predictor = bert_tf.serving.Predictor(os.path.join(folder, dtype))
    names = predictor.inputs

    def answer(texts):
        (result,) = predictor([dict(zip(names, [*texts, ""], strict=False))])
        return [result["probabilities"][label] for label in "01"]

    return answer


def transformers_answer(folder):
    import torch
    import transformers

    if FLAGS.threads:
        torch.set_num_threads(FLAGS.threads)
    pipeline = transformers.pipeline(
        "text-classification", os.path.join(folder, "pretrained"), top_k=None
    )

    def answer(texts):
        inputs = dict(zip(("text", "text_pair"), texts, strict=False))
        scores = pipeline([inputs], truncation=True, max_length=128)[0]
        return [x["score"] for x in sorted(scores, key=lambda x: x["label"])]

    return answer


def onnxruntime_answer(folder):
    import onnxruntime
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.join(folder, "pretrained"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = FLAGS.threads or 0
    session = onnxruntime.InferenceSession(os.path.join(folder, "fused.onnx"), options)
    names = {x.name for x in session.get_inputs()}

    def answer(texts):
        inputs = tokenizer(*texts, truncation=True, max_length=128, return_tensors="np")
        feed = {name: value for name, value in inputs.items() if name in names}
        (logits,) = session.run(["logits"], feed)
        logits = np.exp(logits[0] - logits.max())
        return (logits / logits.sum()).tolist()

    return answer


LIBRARIES = {
    "bert_tf": bert_tf_answer,
    "bert_tf, bfloat16": functools.partial(bert_tf_answer, dtype="bfloat16"),
    "onnxruntime": onnxruntime_answer,
    "transformers": transformers_answer,
}


def write_models(folder, num_texts):
    """Write the exported models, the Hugging Face folder and the fused ONNX model."""
    import torch
    import transformers
    from onnxruntime.transformers import optimizer

    from bert_tf.tasks.classification.servable import classification_servable

    classifier = bert_tf.TextClassifier.from_preset(FLAGS.model, labels=["0", "1"])
    model = classifier.model
    config = dataclasses.replace(classifier.config, num_texts=num_texts)
    for dtype in ("float32", "bfloat16"):
        options = bert_tf.configs.ServingConfig(dtype=dtype, warm_up=False)
        servable = classification_servable(model, config, options)
        bert_tf.serving.export(servable, os.path.join(folder, dtype))
    pretrained = os.path.join(folder, "pretrained")
    tokenizer = bert_tf.FullTokenizer(config.vocab_file)
    write_pretrained(pretrained, bert_tf.checkpoints.tensors(model), model.config, tokenizer)
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(pretrained).eval()
    names = ("input_ids", "attention_mask", "token_type_ids")
    batch = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    plain = os.path.join(folder, "plain.onnx")
    torch.onnx.export(
        peer,
        kwargs={name: torch.ones((2, 16), dtype=torch.long) for name in names},
        f=plain,
        output_names=["logits"],
        dynamic_shapes={name: dict(enumerate(batch)) for name in names},
        dynamo=True,
    )
    sizes = model.config
    fused = optimizer.optimize_model(
        plain,
        "bert",
        num_heads=sizes.num_attention_heads,
        hidden_size=sizes.hidden_size,
        opt_level=1,
    )
    print(f"ONNX Runtime's fused operators: {fused.get_fused_operator_statistics()}")
    fused.save_model_to_file(os.path.join(folder, "fused.onnx"))


def serve(name, folder):
    """Answer orders from standard input: a number of clients and a duration, in JSON."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print to standard output
    rows, answer = read_rows(), LIBRARIES[name](folder)
    first = [answer(row) for row in rows[:50]]
    print(json.dumps(first), file=answers)
    for line in sys.stdin:
        clients, seconds = json.loads(line)
        latencies, stop = [], time.monotonic() + seconds

        def send(seed, latencies=latencies, stop=stop):
            rng = random.Random(seed)
            while time.monotonic() < stop:
                start = time.perf_counter()
                answer(rng.choice(rows))
                latencies.append(time.perf_counter() - start)

        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(latencies), file=answers)


def read_rows():
    rows = [line.rstrip("\n").split("\t") for line in bert_tf.io.files.read_lines(FLAGS.input_file)]
    return [row for row in rows if row[0].strip()][: FLAGS.num_lines]


def main():
    if FLAGS.library:
        return serve(*json.loads(FLAGS.library))
    with tempfile.TemporaryDirectory() as folder:
        write_models(folder, max(map(len, read_rows())))
        processes, first = {}, {}
        for name in LIBRARIES:
            command = [sys.executable, *sys.argv, f"--library={json.dumps([name, folder])}"]
            processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            first[name] = np.array(json.loads(processes[name].stdout.readline()))
        for name, values in first.items():
            print(f"{name}: difference {np.abs(values - first['bert_tf']).max():.1e}")
        print("| clients | | requests per second | median, ms | 99th percentile, ms |")
        print("| --- | --- | --- | --- | --- |")
        for clients in map(int, FLAGS.clients):
            latencies = {name: [] for name in LIBRARIES}
            for _ in range(FLAGS.turns):
                for name, process in processes.items():
                    process.stdin.write(json.dumps([clients, FLAGS.seconds]) + "\n")
                    latencies[name] += json.loads(process.stdout.readline())
            for name, values in latencies.items():
                p50, p99 = np.percentile(values, (50, 99)) * 1e3
                rate = len(values) / (FLAGS.turns * FLAGS.seconds)
                print(f"| {clients} | {name} | {rate:.0f} | {p50:.2f} | {p99:.2f} |", flush=True)
        for process in processes.values():
            process.communicate()


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
