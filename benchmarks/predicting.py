#!/usr/bin/env python3
r"""Compare the prediction speed of bert_tf and of the transformers pipeline.

    python benchmarks/predicting.py --model=FOLDER --input_file=lines.txt

A line is a text, or two texts separated by a tab. The model is a pre-trained encoder or a
classifier of two labels, and all methods use the same weights: exported models in
`serving.Predictor`, and the pipeline, which gets the lines sorted by length. They take turns. The
last column is the largest difference of a probability from the first method.
"""

import os
import statistics
import tempfile

import helpers
import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_string("model", None, "Folder of the model.", required=True)
flags.DEFINE_string("input_file", None, "Text file, one or two texts per line.", required=True)
flags.DEFINE_integer("num_lines", 1000, "Number of lines to classify.")
flags.DEFINE_integer("turns", 5, "Number of runs of each.")
flags.DEFINE_integer("peer_batch_size", 32, "Batch size of transformers.")
flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "Types to compute in.")


def bert_tf_method(folder, rows):
    """Return a function that returns the probabilities (rows, 2) of an exported model."""
    predictor = bert_tf.serving.Predictor(folder)
    rows = [dict(zip(predictor.inputs, [*row, ""], strict=False)) for row in rows]
    return lambda: [[x["probabilities"][label] for label in "01"] for x in predictor(rows)]


def transformers_method(folder, dtype, rows):
    """Return the same for the pipeline of transformers."""
    import transformers

    pipeline = transformers.pipeline(
        "text-classification", folder, top_k=None, batch_size=FLAGS.peer_batch_size, dtype=dtype
    )

    def predict():
        order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
        inputs = [dict(zip(("text", "text_pair"), rows[i], strict=False)) for i in order]
        probabilities = np.zeros((len(rows), 2))
        answers = pipeline(inputs, truncation=True, max_length=128)
        for i, answer in zip(order, answers, strict=True):
            for x in answer:
                probabilities[i, int(x["label"][-1])] = x["score"]
        return probabilities

    return predict


def main():
    rows = helpers.read_rows(FLAGS.input_file, FLAGS.num_lines)
    methods = {}
    with tempfile.TemporaryDirectory() as folder:
        helpers.write_classifier(FLAGS.model, folder, max(map(len, rows)), FLAGS.dtypes)
        for dtype in FLAGS.dtypes:
            methods[f"bert_tf, {dtype}"] = bert_tf_method(os.path.join(folder, dtype), rows)
        peer = os.path.join(folder, "hugging_face")
        for dtype in FLAGS.dtypes:
            methods[f"transformers, {dtype}"] = transformers_method(peer, dtype, rows)
        results = {name: np.array(method()) for name, method in methods.items()}  # also warms up
        seconds = helpers.take_turns(methods, FLAGS.turns)
    first = next(iter(methods))
    helpers.print_head("", "lines per second", "from - to", "times as long", "difference")
    for name, x in seconds.items():
        median, slow, fast = (len(rows) / f(x) for f in (statistics.median, max, min))
        difference = np.abs(results[name] - results[first]).max()
        helpers.print_row(
            name, f"{median:.0f}", f"{slow:.0f} - {fast:.0f}",
            f"{helpers.ratio(x, seconds[first]):.2f}", f"{difference:.1e}",
        )  # fmt: skip


if __name__ == "__main__":
    run(main)
