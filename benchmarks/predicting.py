#!/usr/bin/env python3
r"""Compare the prediction speed of bert_tf and of the transformers pipeline.

    python benchmarks/predicting.py --model=FOLDER --input_file=lines.txt

The model is a pre-trained encoder or a classifier of two labels, and all methods use the same
weights. It is exported in each of --dtypes, and `serving.Predictor`, which `bert-tf predict` uses,
answers the lines. The transformers pipeline `text-classification` gets the lines sorted by length
and uses the same types. The methods take turns. A line is a text, or two texts separated by a tab.
The script prints medians in lines per second, by wall-clock and by processor time, and the largest
difference of a probability from the first method.
"""

import dataclasses
import os
import statistics
import tempfile
import time

import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS
from bert_tf.pipelines.saving import write_pretrained

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_string("input_file", None, "Text file, one or two texts per line.", required=True)
flags.DEFINE_integer("num_lines", 1000, "Number of lines to classify.")
flags.DEFINE_integer("turns", 5, "Number of runs of each.")
flags.DEFINE_integer("peer_batch_size", 32, "Batch size of transformers.")
flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "Types to compute in.")


def main():
    rows = [line.rstrip("\n").split("\t") for line in bert_tf.io.files.read_lines(FLAGS.input_file)]
    rows = [row for row in rows if row[0].strip()][: FLAGS.num_lines]
    classifier = bert_tf.TextClassifier.from_preset(FLAGS.model, labels=["0", "1"])
    config = dataclasses.replace(classifier.config, num_texts=max(map(len, rows)))
    with tempfile.TemporaryDirectory() as folder:
        methods = {}
        for dtype in FLAGS.dtypes:
            options = bert_tf.configs.ServingConfig(dtype=dtype, warm_up=False)
            from bert_tf.tasks.classification.servable import classification_servable

            servable = classification_servable(classifier.model, config, options)
            served = bert_tf.serving.export(servable, os.path.join(folder, dtype))
            methods[f"bert_tf, {dtype}"] = predicting(served, rows)
        peer, model = os.path.join(folder, "peer"), classifier.model
        tensors = bert_tf.checkpoints.tensors(model)
        tokenizer = bert_tf.FullTokenizer(config.vocab_file)
        write_pretrained(peer, tensors, model.config, tokenizer)
        for dtype in FLAGS.dtypes:
            methods[f"transformers, {dtype}"] = transformers_predicting(
                peer, dtype, rows, config.max_seq_length
            )
        print_times(len(rows), methods)


def predicting(folder, rows):
    """Return a function that returns the probabilities (rows, 2) of an exported model."""
    predictor = bert_tf.serving.Predictor(folder)
    rows = [dict(zip(predictor.inputs, [*row, ""], strict=False)) for row in rows]

    def predict():
        return [[x["probabilities"][label] for label in ("0", "1")] for x in predictor(rows)]

    return predict


def transformers_predicting(folder, dtype, rows, max_seq_length):
    """Return a function that returns the probabilities (rows, 2) of the peer's pipeline."""
    import transformers

    pipeline = transformers.pipeline(
        "text-classification", folder, top_k=None, batch_size=FLAGS.peer_batch_size, dtype=dtype
    )

    def predict():
        order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
        inputs = [dict(zip(("text", "text_pair"), rows[i], strict=False)) for i in order]
        answers = pipeline(inputs, truncation=True, max_length=max_seq_length)
        probabilities = np.zeros((len(rows), 2))
        for i, answer in zip(order, answers, strict=True):
            for x in answer:
                probabilities[i, int(x["label"][-1])] = x["score"]
        return probabilities

    return predict


def print_times(num_lines, methods):
    """Run the methods in turns and print a table."""
    results = {name: np.array(method()) for name, method in methods.items()}  # also warms up
    clock, processor = ({name: [] for name in methods} for _ in range(2))
    for _ in range(FLAGS.turns):
        for name, method in methods.items():
            start = time.perf_counter(), time.process_time()
            method()
            clock[name].append(time.perf_counter() - start[0])
            processor[name].append(time.process_time() - start[1])
    first = next(iter(methods))
    for name in methods:
        seconds, busy = statistics.median(clock[name]), statistics.median(processor[name])
        difference = np.abs(results[name] - results[first]).max()
        print(
            f"{name:22} {num_lines / seconds:7.1f} lines per second "
            f"({num_lines / max(clock[name]):.1f} - {num_lines / min(clock[name]):.1f}), "
            f"{seconds / statistics.median(clock[first]):5.2f} times as long, processor "
            f"{busy / statistics.median(processor[first]):5.2f}; difference {difference:.1e}"
        )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
