#!/usr/bin/env python3
r"""What smaller weights cost a classifier: the metrics of a task by several exports of one run.

    for weights in float32 bfloat16 int8; do
      python export_model.py --model_dir=RUN --weights=$weights --export_dir=/tmp/$weights
    done
    python benchmarks/weights.py --task_name=CoLA --data_dir=CoLA \
      --models=/tmp/float32,/tmp/bfloat16,/tmp/int8

For each it prints the metrics on the development set, and beside the first model of the list how
many labels are others and the greatest difference of a probability (which are given to 6 digits).
"""

import numpy as np
from absl import flags

import bert_tf
from bert_tf import serving, tasks
from bert_tf.tasks.metrics import METRICS

FLAGS = flags.FLAGS
flags.DEFINE_string("task_name", None, "A task of run_classifier.py.", required=True)
flags.DEFINE_string("data_dir", None, "The folder of its files.", required=True)
flags.DEFINE_list("models", None, "Folders of export_model.py.", required=True)


def main():
    task = tasks.find_task(FLAGS.task_name)
    if task.task_type != "classification":
        raise bert_tf.UserError(f"--task_name={FLAGS.task_name}: a classification was expected")
    examples = tasks.FileSource(task, FLAGS.data_dir).read("dev")
    first = None
    for path in FLAGS.models:
        predictor = serving.Predictor(path)
        fields = {name: "text_a" if name == "text" else name for name in predictor.inputs}
        # A second text that an example does not have is "".
        rows = [{name: getattr(x, field) or "" for name, field in fields.items()} for x in examples]
        answers = predictor(rows)
        labels = list(answers[0]["probabilities"])
        true, found = (
            np.array([labels.index(label) for label in column])
            for column in ([x.label for x in examples], [x["label"] for x in answers])
        )
        chances = np.array([[x["probabilities"][label] for label in labels] for x in answers])
        first = (found, chances) if first is None else first
        figures = {name: METRICS[name](true, found) for name in ("accuracy", *task.metrics)}
        print(
            f"{path}: {len(found)} examples, "
            + ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
            + f"; {np.sum(found != first[0])} labels are others, "
            f"a probability differs by {np.abs(chances - first[1]).max():.4f}",
            flush=True,
        )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
