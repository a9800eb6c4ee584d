#!/usr/bin/env python3
r"""Measure how long a single text takes, with one client and with several.

    python benchmarks/latency.py --model=FOLDER --input_file=lines.txt

All libraries have the same weights, with a random head for two labels: an exported model in
`serving.Predictor`, the pipeline of transformers, and ONNX Runtime after the tokenizer of Hugging
Face. ONNX Runtime's model is exported by `torch.onnx` and fused by
`onnxruntime.transformers.optimizer`. Clients are threads that send a line (a text, or two separated
by a tab), wait for the answer and repeat.
"""

import functools
import json
import os
import tempfile

import helpers
import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_string("input_file", None, "Text file, one or two texts per line.", required=True)
flags.DEFINE_list("clients", ["1", "8"], "Numbers of clients.")
flags.DEFINE_float("seconds", 5.0, "Duration of a turn.")
flags.DEFINE_integer("turns", 4, "Number of turns.")
flags.DEFINE_integer("num_lines", 1000, "Number of lines to choose from.")
flags.DEFINE_integer("threads", None, "Threads of an operation. Default: the library's default.")
flags.DEFINE_string("serve", None, "Settings of a worker; used by the script itself.")


def bert_tf_answer(folder, dtype="float32"):
    num_threads = FLAGS.threads
    if dtype != "onnx":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(num_threads or 0)
        num_threads = None
    predictor = bert_tf.serving.Predictor(os.path.join(folder, dtype), num_threads=num_threads)
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
        "text-classification", os.path.join(folder, "hugging_face"), top_k=None
    )

    def answer(texts):
        inputs = dict(zip(("text", "text_pair"), texts, strict=False))
        scores = pipeline([inputs], truncation=True, max_length=128)[0]
        return [x["score"] for x in sorted(scores, key=lambda x: x["label"])]

    return answer


def onnxruntime_answer(folder):
    import onnxruntime
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.join(folder, "hugging_face"))
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
    "bert_tf, ONNX": functools.partial(bert_tf_answer, dtype="onnx"),
    "onnxruntime": onnxruntime_answer,
    "transformers": transformers_answer,
}


def write_models(folder, num_texts):
    """Write the exported models, the Hugging Face folder and the fused ONNX model."""
    import torch
    import transformers
    from onnxruntime.transformers import optimizer

    helpers.write_classifier(FLAGS.model, folder, num_texts, ("float32", "bfloat16", "onnx"))
    pretrained = os.path.join(folder, "hugging_face")
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
    sizes = peer.config
    fused = optimizer.optimize_model(
        plain,
        "bert",
        num_heads=sizes.num_attention_heads,
        hidden_size=sizes.hidden_size,
        opt_level=1,
    )
    print(f"ONNX Runtime's fused operators: {fused.get_fused_operator_statistics()}")
    fused.save_model_to_file(os.path.join(folder, "fused.onnx"))


def start(name, folder):
    """Return the first answers, and a function from (number of clients, seconds) to latencies."""
    rows, ask = helpers.read_rows(FLAGS.input_file, FLAGS.num_lines), LIBRARIES[name](folder)

    def answer(order):
        return helpers.request_latencies(lambda rng: lambda: ask(rng.choice(rows)), *order)

    return [ask(row) for row in rows[:50]], answer


def main():
    if FLAGS.serve:
        return helpers.serve(lambda: start(*json.loads(FLAGS.serve)))
    with tempfile.TemporaryDirectory() as folder:
        rows = helpers.read_rows(FLAGS.input_file, FLAGS.num_lines)
        write_models(folder, max(map(len, rows)))
        workers = {name: helpers.Worker(name, folder) for name in LIBRARIES}
        first = np.array(workers["bert_tf"].first)
        for name, worker in workers.items():
            print(f"{name}: difference {np.abs(np.array(worker.first) - first).max():.1e}")
        helpers.print_head(
            "clients", "", "requests per second", "median, ms", "99th percentile, ms"
        )
        for clients in map(int, FLAGS.clients):
            latencies = {name: [] for name in LIBRARIES}
            for _ in range(FLAGS.turns):
                for name, worker in workers.items():
                    latencies[name] += worker.ask([clients, FLAGS.seconds])
            for name, values in latencies.items():
                p50, p99 = np.percentile(values, (50, 99)) * 1e3
                rate = len(values) / (FLAGS.turns * FLAGS.seconds)
                helpers.print_row(clients, name, f"{rate:.0f}", f"{p50:.2f}", f"{p99:.2f}")
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    run(main)
