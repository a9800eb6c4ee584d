"""The best checkpoint of a run by one metric, and whether it is worth going on."""

import json
import math
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError, reason
from bert_tf.training import checkpointing

_RECORD = "best.json"


def check_metric(metric, names):
    """Raises UserError if `metric` is neither None nor one of the `names` of a task's metrics."""
    if metric and metric not in names:
        raise UserError(
            f"`best_metric`: {metric} is no metric of this task, which has {', '.join(names)}"
        )


def log_best_checkpoint(output_dir, flag=None):
    """Says so if a run has kept a best checkpoint, for those who do not ask for it.

    Args:
      output_dir: the run's folder.
      flag: that which takes such a folder, if it is not `best_metric` that takes the best.
    """
    path = os.path.join(output_dir, checkpointing.BEST, _RECORD)
    if tf.io.gfile.exists(path):
        record = json.loads(files.read_text(path))
        folder = os.path.dirname(path)
        how = f"`{flag}={folder}`" if flag else f"`best_metric={record['metric']}`"
        console.info(
            "%s has the best of that run by %s, step %s: %s takes it",
            folder, record["metric"], record["step"], how,
        )  # fmt: skip


class Best:
    """The best evaluation of a run, the weights that it was of, and the evaluations since.

    It lies in files, so a run that is killed and goes on keeps it. Of a metric with "loss" in its
    name the least is the best, of others the greatest.

    `step` and `value` are those of the best, None before there is one; `since` are the steps of the
    evaluations after it.
    """

    def __init__(self, output_dir, metric):
        """Reads what the run has so far; UserError if that is the best by another metric."""
        self.output_dir, self.metric = output_dir, metric
        self.folder = os.path.join(output_dir, checkpointing.BEST)
        self.value, self.step, self.since = None, None, []
        path = os.path.join(self.folder, _RECORD)
        if not tf.io.gfile.exists(path):
            return
        try:
            record = json.loads(files.read_text(path))
            kept, self.since = record["metric"], list(record["since"])
            self.value, self.step = record["value"], record["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: not the record of a best step ({reason(error)})") from None
        if kept != metric:
            raise UserError(
                f"`best_metric={metric}`, but {self.folder} holds the best by {kept}; give that "
                "metric, or remove the folder"
            )

    def rewind(self, step):
        """Forgets what lies after `step`, where the run goes on; the same may come again."""
        self.since = [other for other in self.since if other <= step]
        if self.step is not None and self.step > step:
            console.warning(
                "%s is of step %d, but the run is at step %d: it counts no more, and the next "
                "evaluation takes its place",
                self.folder, self.step, step,
            )  # fmt: skip
            self.value, self.step = None, None

    def has_seen(self, step):
        """Whether that step was evaluated."""
        return step == self.step or step in self.since

    def update(self, results, weights, writes):
        """Takes in an evaluation, and keeps the weights if they are better than any before.

        Args:
          results: of the evaluation, with `global_step`.
          weights: dict of names to `tf.Variable`, with `global_step`.
          writes: whether this process is the one that writes.
        """
        value, step = float(results[self.metric]), int(results["global_step"])
        if self._is_better(value):
            self.value, self.step, self.since = value, step, []
            if writes:
                # The record comes after it: a run that is killed between them evaluates again.
                checkpointing.save(self.folder, weights, keep=1)
                files.copy_model_files(self.output_dir, self.folder)
        else:
            self.since.append(step)
        if writes:
            record = {
                "metric": self.metric,
                "value": self.value,
                "step": self.step,
                "since": self.since,
            }
            text = json.dumps(record, indent=2) + "\n"
            files.write_text(os.path.join(self.folder, _RECORD), text)
        best = "there is no best" if self.step is None else f"the best is {self.value:.5g}"
        where = "" if self.step is None else f" at step {self.step}"
        console.info("%s %.5g at step %d; %s%s", self.metric, value, step, best, where)

    def _is_better(self, value):
        if math.isnan(value):  # neither better nor worse than anything
            return False
        if self.value is None:
            return True
        return value < self.value if "loss" in self.metric else value > self.value
