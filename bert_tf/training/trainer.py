"""`Trainer`: trains, evaluates and predicts one task."""

import dataclasses
import functools
import os

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.release import check_path
from bert_tf.configs.train import TrainConfig
from bert_tf.errors import UserError
from bert_tf.io import processes
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import BestCheckpoint, check_metric
from bert_tf.training.loop import PreemptionHandler, TrainLoop, exclusive_directory
from bert_tf.training.strategy import Workers, on_all_replicas, use_xla


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
        is_loaded=False,
    ):
        """Build the model and load its weights.

        The weights come from the newest checkpoint in `output_dir` (to resume a run), else from
        `init_checkpoint` (a warm start), else they are random.

        Args:
          make_task: function without arguments that returns the `training.Task`.
          strategy: a `tf.distribute.Strategy`.
          output_dir: folder of the run's checkpoints and summaries.
          init_checkpoint: a release checkpoint, another run's checkpoint, or a Hugging Face folder.
          must_be_trained: whether all weights must be loaded, as for evaluation and prediction.
          labels: labels of the classification layer, if any.
          is_loaded: whether the model of the task already has its initial weights.

        Raises:
          UserError: if a checkpoint does not fit the model, or a required one is missing.
        """
        check_path(output_dir, "output_dir")
        self.strategy = strategy
        self.workers = Workers(strategy)
        self._eval_writers = {}
        self.output_dir = output_dir
        with self.workers.watched(), strategy.scope():
            self.task = make_task()
        self.model = self.task.model
        self.model.skip_padding = can_skip_padding(strategy, reads_padding=self.task.reads_padding)
        count = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        console.info("model: %s, %.1f M parameters", self.model.name, count / 1e6)
        weights = checkpointing.weights(self.model)
        self.checkpoint = checkpointing.restore_latest(output_dir, weights)
        if self.checkpoint:
            ignored = "; `init_checkpoint` is not read" if init_checkpoint else ""
            console.info("weights: resumed from %s%s", self.checkpoint, ignored)
        elif init_checkpoint:
            checkpoints.warm_start(self.model, init_checkpoint, must_be_trained, labels)
        elif must_be_trained:
            raise UserError(
                f"`output_dir`: found no checkpoint in {output_dir}; without `init_checkpoint`, "
                "the weights would be random"
            )
        elif not is_loaded:
            console.info("weights: random, because there is no `init_checkpoint`")

    @property
    def step(self):
        """The step of the loaded checkpoint, 0 without one."""
        return checkpointing.read_step(self.checkpoint) if self.checkpoint else 0

    def fit(self, data, optimizer, num_train_steps, config=None, eval_data=None, epochs=None):
        """Train up to `num_train_steps`, starting from the newest checkpoint.

        Args:
          data: endless batches, a `data.input_pipeline.TrainingInput`.
          optimizer: an unbuilt optimizer of `bert_tf.optimization`. A learning rate that is a
            function is called once, when the step is traced; it may read a `tf.Variable`.
          num_train_steps: the step to stop at.
          config: a `TrainConfig`, None for the defaults.
          eval_data: a `data.input_pipeline.EvaluationInput` for `config.eval_steps`.
          epochs: the `callbacks.Epochs` with Keras callbacks, or None.

        Raises:
          UserError: if a loss is not finite, another process trains in the folder, or the run was
            started with a different optimizer.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved; or if another worker is lost.
        """
        config = config or TrainConfig()
        if config.xla is not None and isinstance(self.strategy, tf.distribute.TPUStrategy):
            console.warning("`xla` has no effect on a TPU, which always compiles with it")
        config = dataclasses.replace(
            config, xla=use_xla(config.xla, self.strategy, num_train_steps)
        )
        self.model.skip_padding &= can_skip_padding(self.strategy, config.xla)
        check_metric(config.best_metric, self.task.metric_names)
        processes.keep_freed_memory()
        with (
            exclusive_directory(self.output_dir, self.workers),
            PreemptionHandler() as preemption,
            self.workers.watched(),
        ):
            options = data, optimizer, num_train_steps, config, eval_data, epochs
            loop = TrainLoop(self, *options)
            loop.run(preemption)

    def use_best(self, metric):
        """Load the best checkpoint by a metric; UserError if the run has none."""
        check_metric(metric, self.task.metric_names)
        folder = BestCheckpoint(self.output_dir, metric).folder
        prefix = checkpointing.restore_latest(folder, checkpointing.weights(self.model))
        if prefix is None:
            raise UserError(f"`best_metric`: found no checkpoint in {folder}")
        self.checkpoint = prefix
        console.info("weights: the best checkpoint of this run, %s", prefix)

    @functools.cached_property
    def _predict_step(self):
        task = self.task

        def replica_step(batch):
            predictions = task.predictions(task.model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        return on_all_replicas(replica_step, self.strategy)

    def predict(self, data, description, total=None, on_batch=None):
        """Yield the predictions of each batch, in order, as dicts of numpy arrays.

        Every worker gets the predictions of all workers.

        Args:
          data: a `data.input_pipeline.EvaluationInput`; padding rows of the last batch are dropped.
          description: label of the progress bar.
          total: number of examples, if known.
          on_batch: function to call after each batch.
        """
        progress = console.ProgressLog(description, "examples", total=total)
        with self.workers.watched():
            for batch in self.strategy.distribute_datasets_from_function(data.batches):
                values = {name: x.numpy() for name, x in self._predict_step(batch).items()}
                real = values.pop("is_real_example").astype(bool)
                progress.add(int(real.sum()))
                if on_batch:
                    on_batch()
                yield {name: value[real] for name, value in values.items()}
        progress.done()

    def predict_all(self, data, description, total=None, on_batch=None):
        """Return all predictions as one dict of numpy arrays; UserError without examples."""
        parts = list(self.predict(data, description, total, on_batch))
        if not parts:
            raise UserError(f"{description}: there are no examples")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def evaluate(
        self, data, step=None, total=None, name="eval", on_predictions=None, on_batch=None
    ):
        """Return a dict of the metrics over all of `data`, and `global_step`.

        `data`, `total` and `on_batch` are as for `predict`. `step` is the step of the weights, None
        for the step of their checkpoint. `name` labels the curves in TensorBoard, and
        `on_predictions` is called with the result of `predict_all`.
        """
        predictions = self.predict_all(data, "evaluating", total, on_batch)
        if on_predictions:
            on_predictions(predictions)
        results = self.task.metrics(predictions)
        results["global_step"] = self.step if step is None else step
        self.write_curves(results, name)
        return results

    def write_curves(self, results, name="eval"):
        """Write results, which include `global_step`, to TensorBoard, on the chief."""
        if not self.workers.is_chief:
            return
        if name not in self._eval_writers:
            folder = os.path.join(self.output_dir, name)
            self._eval_writers[name] = tf.summary.create_file_writer(folder)
        with self._eval_writers[name].as_default(step=results["global_step"]):
            for metric, value in results.items():
                tf.summary.scalar(metric, value)
        self._eval_writers[name].flush()
