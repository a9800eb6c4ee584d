"""The best checkpoint of a run by one metric, and whether it is worth going on."""

import json
import math
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError, reason
from bert_tf.training import checkpointing

_RECORD = "best.json"


class Best:
    """The best evaluation of a run, and the weights that it was of.

    It lies in files, so a run that is killed and goes on keeps it. Of a metric with "loss" in its
    name the least is the best, of others the greatest.
    """

    def __init__(self, output_dir, metric, patience=0):
        """Reads what the run has so far.

        Args:
          output_dir: the run's folder.
          metric: name of what decides.
          patience: steps without a better evaluation after which to stop, 0 for never.

        Raises:
          UserError: if the folder has the best by another metric.
        """
        self.folder = os.path.join(output_dir, checkpointing.BEST)
        self.metric, self.patience = metric, patience
        self.value = self.step = None
        path = os.path.join(self.folder, _RECORD)
        if not tf.io.gfile.exists(path):
            return
        try:
            record = json.loads(files.read_text(path))
            kept, self.value, self.step = record["metric"], record["value"], record["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: not the record of a best step ({reason(error)})") from None
        if kept != metric:
            raise UserError(
                f"--best_metric={metric}, but {self.folder} holds the best by {kept}; give that "
                "metric, or remove the folder"
            )

    def offer(self, results, weights, writes):
        """Keeps the weights if they are better than any before.

        Args:
          results: of the evaluation, with `global_step`.
          weights: dict of names to `tf.Variable`, with `global_step`.
          writes: whether this process is the one that writes.
        """
        value, step = float(results[self.metric]), int(results["global_step"])
        if math.isnan(value):  # nothing is better or worse than that
            console.warning("%s is no number at step %d", self.metric, step)
            return
        is_better = self.value is None or (
            value < self.value if "loss" in self.metric else value > self.value
        )
        if is_better:
            self.value, self.step = value, step
            if writes:
                # The record last: a run that is killed before it evaluates this step again.
                checkpointing.save(self.folder, weights, keep=1)
                record = {"metric": self.metric, "value": value, "step": step}
                path = os.path.join(self.folder, _RECORD)
                files.write_text(path, json.dumps(record, indent=2) + "\n")
        console.info(
            "%s %.5g at step %d; the best is %.5g at step %d",
            self.metric, value, step, self.value, self.step,
        )  # fmt: skip

    def is_exhausted(self, step):
        """Whether the patience is over at `step`."""
        return bool(self.patience and self.step) and step - self.step >= self.patience
