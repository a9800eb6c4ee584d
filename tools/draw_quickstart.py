#!/usr/bin/env python3
"""Draw docs/quick_start.svg from the output folder of quickstart.py.

    pip install matplotlib scikit-learn
    python tools/draw_quickstart.py quickstart_output

The loss of pre-training by step, and the confusion matrices of both classifiers on the test set.
"""

import csv
import os
import sys

import matplotlib
import matplotlib.pyplot as plt
import tensorflow as tf
from sklearn.metrics import ConfusionMatrixDisplay
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TARGET = os.path.join(os.path.dirname(__file__), "..", "docs", "quick_start.svg")


def read_column(path, name):
    with open(path, encoding="utf-8", newline="") as reader:
        return [row[name] for row in csv.DictReader(reader, delimiter="\t")]


def main():
    (folder,) = sys.argv[1:]
    matplotlib.rcParams["svg.hashsalt"] = "bert_tf"  # the same file for the same numbers
    _, (curve, *matrices) = plt.subplots(1, 3, figsize=(11, 3), width_ratios=(2, 1, 1))
    events = EventAccumulator(os.path.join(folder, "pretrained"), {"tensors": 0}).Reload()
    for name in ("masked_lm_loss", "next_sentence_loss"):
        points = [(x.step, float(tf.make_ndarray(x.tensor_proto))) for x in events.Tensors(name)]
        curve.plot(*zip(*points, strict=True), marker="o", label=name)
    curve.set(title="Pre-training", xlabel="step", ylabel="loss", ylim=(0, None))
    curve.spines[["top", "right"]].set_visible(False)
    curve.legend(frameon=False)
    labels = read_column(os.path.join(folder, "text", "test.tsv"), "label")
    titles = {"classifier_without": "Without pre-training", "classifier": "With pre-training"}
    for ax, (name, title) in zip(matrices, titles.items(), strict=True):
        path = os.path.join(folder, name, "test_predictions.tsv")
        ConfusionMatrixDisplay.from_predictions(
            labels, read_column(path, "prediction"), ax=ax, cmap="Blues", colorbar=False
        )
        ax.set_title(title)
    plt.tight_layout()
    plt.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
