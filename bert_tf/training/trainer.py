"""Trains, evaluates and predicts: what scripts call."""

import functools
import os

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.errors import UserError
from bert_tf.training import checkpointing, guard
from bert_tf.training.best import Best, check_metric
from bert_tf.training.loop import Run
from bert_tf.training.options import Options
from bert_tf.training.strategy import on_all_replicas
from bert_tf.training.workers import Workers


class Trainer:
    """Trains, evaluates and predicts one task on one strategy, with its files in `output_dir`."""

    def __init__(
        self,
        make_task,
        strategy,
        output_dir,
        init_checkpoint=None,
        must_be_trained=False,
        labels=None,
    ):
        """Builds the model and gives it its weights.

        They come from the newest checkpoint in `output_dir` if there is one (the run goes on), else
        from `init_checkpoint` if it is given (a warm start), else they are random; a line says
        which.

        Args:
          make_task: function without arguments that makes the `tasks.base.Task`.
          strategy: a `tf.distribute.Strategy`.
          output_dir: folder of the run's checkpoints and summaries.
          init_checkpoint: a release checkpoint, or one of ours.
          must_be_trained: whether no weight may stay random, as before evaluation and prediction.
          labels: what the rows of a classifier's or tagger's head stand for, if that has names.

        Raises:
          UserError: if a checkpoint does not fit, or there is none and one is needed.
        """
        checkpoints.check_path(output_dir, "output_dir")
        self.strategy = strategy
        self.workers = Workers(strategy)
        self._eval_writers = {}
        self.output_dir = output_dir
        with self.workers.watched(), strategy.scope():
            self.task = make_task()
        self.model = self.task.model
        count = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        console.info("model: %s, %.1f M parameters", self.model.name, count / 1e6)
        weights = checkpointing.weights(self.model)
        self.checkpoint = checkpointing.restore_latest(output_dir, weights)
        if self.checkpoint:
            ignored = "; `init_checkpoint` is not read" if init_checkpoint else ""
            console.info("weights: from this run's own %s%s", self.checkpoint, ignored)
        elif init_checkpoint:
            checkpoints.warm_start(self.model, init_checkpoint, must_be_trained, labels)
        elif must_be_trained:
            raise UserError(
                f"`output_dir`: there is no checkpoint in {output_dir}, nor an `init_checkpoint`; "
                "the answers would be those of random weights"
            )
        else:
            console.info("weights: random, no `init_checkpoint` is given")

    @property
    def step(self):
        """The step of the weights in the checkpoint that they came from, 0 without one."""
        return checkpointing.step_of(self.checkpoint) if self.checkpoint else 0

    def train(self, data, optimizer, num_train_steps, options=None, eval_data=None):
        """Trains up to `num_train_steps`, from where the newest checkpoint stands.

        Args:
          data: batches without end, as `data.input_pipeline.TrainingInput`.
          optimizer: one of `bert_tf.optimization`, not built yet.
          num_train_steps: the step to stop at.
          options: `Options`, None for the defaults.
          eval_data: what to evaluate on in between, as `data.input_pipeline.EvaluationInput`, if
            `options.eval_steps` asks for it.

        Raises:
          UserError: if a loss is no longer a number, or another process trains in the folder.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved; or if another worker is lost.
        """
        options = options or Options()
        self.check_metric(options.best_metric)
        with (
            guard.exclusive_directory(self.output_dir, self.workers),
            guard.PreemptionHandler() as stopper,
            self.workers.watched(),
        ):
            run = Run(self, data, optimizer, num_train_steps, options, eval_data)
            run.go(stopper)

    def check_metric(self, metric):
        """Raises UserError if `metric` is neither None nor one of the task's."""
        check_metric(metric, self.task.metric_names)

    def use_best(self, metric):
        """Takes the weights of the best checkpoint; UserError if none was kept by that metric."""
        self.check_metric(metric)
        folder = Best(self.output_dir, metric).folder
        prefix = checkpointing.restore_latest(folder, checkpointing.weights(self.model))
        if prefix is None:
            raise UserError(f"`best_metric`: there is no best checkpoint in {folder}")
        self.checkpoint = prefix
        console.info("weights: the best of this run, %s", prefix)

    @functools.cached_property
    def _predict_step(self):
        """The function from a distributed batch to its predictions, those of all replicas."""
        task = self.task

        def replica_step(batch):
            predictions = task.predictions(task.model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        return on_all_replicas(replica_step, self.strategy)

    def predict(self, data, what, total=None):
        """Yields the task's predictions of each batch, in order, as dicts of numpy arrays.

        Every worker gets those of all.

        Args:
          data: batches with `is_real_example` (B,), 0 for rows that
            only fill up the last batch; these are left out.
          what: the job, for the progress line.
          total: number of examples, if known.
        """
        ticker = console.Ticker(what, "examples", total=total)
        with self.workers.watched():
            for batch in self.strategy.distribute_datasets_from_function(data.batches):
                values = {name: x.numpy() for name, x in self._predict_step(batch).items()}
                real = values.pop("is_real_example").astype(bool)
                ticker.add(int(real.sum()))
                yield {name: value[real] for name, value in values.items()}
        ticker.done()

    def predict_all(self, data, what, total=None, is_stopped=None):
        """The same as one dict of numpy arrays.

        Args:
          data: as for `predict`.
          what: the job, for the progress line.
          total: number of examples, if known.
          is_stopped: function that says whether to give up; then the result is None.

        Raises:
          UserError: if there is not a single example.
        """
        parts = []
        for part in self.predict(data, what, total):
            if is_stopped and is_stopped():
                return None
            parts.append(part)
        if not parts:
            raise UserError(f"{what}: there is not a single example")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def evaluate(self, data, step=None, total=None, name="eval", also=None, is_stopped=None):
        """Returns the task's metrics over all of `data`, a dict, and `global_step`.

        Args:
          data: as for `predict`.
          step: that of the weights, if it is not that of the checkpoint they came from.
          total: number of examples, if known.
          name: of the curves in TensorBoard.
          also: function to call with what `predict_all` gives.
          is_stopped: function that says whether to give up; then the result is None.
        """
        predictions = self.predict_all(data, "evaluating", total, is_stopped)
        if predictions is None:
            return None
        if also:
            also(predictions)
        results = self.task.metrics(predictions)
        results["global_step"] = self.step if step is None else step
        self.write_curves(results, name)
        return results

    def write_curves(self, results, name="eval"):
        """Has the chief put results, with `global_step`, into the curves of TensorBoard."""
        if not self.workers.is_chief:
            return
        if name not in self._eval_writers:
            folder = os.path.join(self.output_dir, name)
            self._eval_writers[name] = tf.summary.create_file_writer(folder)
        with self._eval_writers[name].as_default(step=results["global_step"]):
            for metric, value in results.items():
                tf.summary.scalar(metric, value)
        self._eval_writers[name].flush()
