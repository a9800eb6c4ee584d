"""The best checkpoint of a run by one metric, for early stopping and for the end of the run."""

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
            f"`best_metric`: {metric} is not a metric of this task, which has {', '.join(names)}"
        )


def log_best_checkpoint(output_dir, argument=None):
    """Log that a run has kept a best checkpoint, where it is not asked for.

    Args:
      output_dir: the run's folder.
      argument: the argument that takes the folder of the best checkpoint; None if `best_metric`
        selects it.
    """
    path = os.path.join(output_dir, checkpointing.BEST, _RECORD)
    if tf.io.gfile.exists(path):
        record = json.loads(files.read_text(path))
        folder = os.path.dirname(path)
        how = f"`{argument}={folder}`" if argument else f"`best_metric={record['metric']}`"
        console.info(
            "%s has the best checkpoint of that run by %s, step %s; use it with %s",
            folder, record["metric"], record["step"], how,
        )  # fmt: skip


class BestCheckpoint:
    """The best evaluation of a run, its weights, and the evaluations since.

    It is kept in files, so it survives when a run is killed and resumed. Lower is better for a
    metric with "loss" in its name, higher for all others.

    Attributes:
      metric: name of the metric.
      folder: the folder of the weights and of best.json.
      step, value: those of the best evaluation, None before there is one.
      since: list of the steps of later evaluations.
    """

    def __init__(self, output_dir, metric):
        """Read the state of the run; UserError if its best checkpoint is by a different metric."""
        self.output_dir, self.metric = output_dir, metric
        self.folder = os.path.join(output_dir, checkpointing.BEST)
        self.value, self.step, self.since = None, None, []
        path = os.path.join(self.folder, _RECORD)
        if not tf.io.gfile.exists(path):
            return
        try:
            record = json.loads(files.read_text(path))
            stored_metric, self.since = record["metric"], list(record["since"])
            self.value, self.step = record["value"], record["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: not a record of a best checkpoint ({reason(error)})"
            ) from None
        if stored_metric != metric:
            raise UserError(
                f"`best_metric={metric}`, but {self.folder} holds the best by {stored_metric}; use "
                "that metric, or remove the folder"
            )

    def rewind(self, step):
        """Forget the evaluations after `step`, where the run is resumed; they will be repeated."""
        self.since = [other for other in self.since if other <= step]
        if self.step is not None and self.step > step:
            console.warning(
                "%s is of step %d, but the run is at step %d: it is ignored, and the next "
                "evaluation replaces it",
                self.folder, self.step, step,
            )  # fmt: skip
            self.value, self.step = None, None

    def has_seen(self, step):
        """Return whether a step was evaluated."""
        return step == self.step or step in self.since

    def update(self, results, weights, writes):
        """Record an evaluation, and save the weights if they are the best so far.

        Args:
          results: metrics of the evaluation, with `global_step`.
          weights: dict of names to `tf.Variable`, with `global_step`.
          writes: whether this process writes files.
        """
        value, step = float(results[self.metric]), int(results["global_step"])
        if self._is_better(value):
            self.value, self.step, self.since = value, step, []
            if writes:
                # The record is written later: a run that is killed in between evaluates again.
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
        best = "no best so far" if self.step is None else f"the best is {self.value:.5g}"
        where = "" if self.step is None else f" at step {self.step}"
        console.info("%s %.5g at step %d; %s%s", self.metric, value, step, best, where)

    def _is_better(self, value):
        if math.isnan(value):
            return False
        if self.value is None:
            return True
        return value < self.value if "loss" in self.metric else value > self.value
