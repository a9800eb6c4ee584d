#!/usr/bin/env python3
r"""Compare the metrics of a classifier exported with float32, bfloat16 and int8 weights.

    for weights in float32 bfloat16 int8; do
      python export_model.py --model_dir=RUN --weights=$weights --export_dir=/tmp/$weights
    done
    python benchmarks/weights.py --task_name=CoLA --data_dir=CoLA \
      --models=/tmp/float32,/tmp/bfloat16,/tmp/int8

For each model the script prints the metrics on the development set and, relative to the first
model, the number of different labels and the largest difference of a probability (predictions have
6 digits).
"""

import numpy as np
from absl import flags

import bert_tf
from bert_tf import serving, tasks
from bert_tf.training.metrics import METRICS

FLAGS = flags.FLAGS
flags.DEFINE_string("task_name", None, "Task of run_classifier.py.", required=True)
flags.DEFINE_string("data_dir", None, "Folder with the files of the task.", required=True)
flags.DEFINE_list("models", None, "Exported models.", required=True)


def main():
    dataset = tasks.classification.find_task(FLAGS.task_name)
    if dataset.task_type != "classification":
        raise bert_tf.UserError(f"--task_name={FLAGS.task_name}: expected a classification task")
    examples = tasks.classification.FileSource(dataset, FLAGS.data_dir).read("dev")
    first = None
    for path in FLAGS.models:
        predictor = serving.Predictor(path)
        fields = {name: "text_a" if name == "text" else name for name in predictor.inputs}
        # A missing second text is "".
        rows = [{name: getattr(x, field) or "" for name, field in fields.items()} for x in examples]
        answers = predictor(rows)
        labels = list(answers[0]["probabilities"])
        true, predicted = (
            np.array([labels.index(label) for label in column])
            for column in ([x.label for x in examples], [x["label"] for x in answers])
        )
        probabilities = np.array([[x["probabilities"][label] for label in labels] for x in answers])
        first = (predicted, probabilities) if first is None else first
        figures = {name: METRICS[name](true, predicted) for name in ("accuracy", *dataset.metrics)}
        print(
            f"{path}: {len(predicted)} examples, "
            + ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
            + f"; {np.sum(predicted != first[0])} labels differ, "
            f"a probability differs by {np.abs(probabilities - first[1]).max():.4f}",
            flush=True,
        )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
