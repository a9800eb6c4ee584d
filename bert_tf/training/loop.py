"""`Loop`: a task with its weights on the devices of a strategy, which trains and predicts."""

import contextlib
import functools
import os

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.release import check_path
from bert_tf.configs.train import TrainConfig
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import BestCheckpoint, exclusive_directory
from bert_tf.training.progress import PreemptionHandler
from bert_tf.training.strategy import Workers, on_all_replicas
from bert_tf.training.task import concatenate
from bert_tf.training.training import Training


class Loop:
    """Trains, evaluates and predicts with one task on one strategy.

    Attributes:
      task: the `training.Task`, and `model` its Keras model.
      step: the step of the weights.
      checkpoint: the path of the newest checkpoint in `output_dir`, None without one.
      workers: the `strategy.Workers`.
    """

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
        self.strategy, self.output_dir = strategy, output_dir
        self.workers = Workers(strategy)
        self._eval_writers = {}
        with self.workers.watched(), strategy.scope():
            self.task = make_task()
        self.model = self.task.model
        self.model.skip_padding = can_skip_padding(strategy, reads_padding=self.task.reads_padding)
        count = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        console.info("model: %s, %.1f M parameters", self.model.name, count / 1e6)
        weights = checkpointing.weights(self.model)
        self.checkpoint, self.step = checkpointing.restore_latest(output_dir, weights), 0
        if self.checkpoint:
            self.step = checkpointing.read_step(self.checkpoint)
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

    def train(self, data, optimizer, num_train_steps, config=None, eval_data=None, epochs=None):
        """Train up to `num_train_steps`, starting from the newest checkpoint.

        Args:
          data: endless batches, a `data.input_pipeline.TrainingInput`.
          optimizer: a new optimizer of `bert_tf.optimization`, made in the scope of the strategy.
            A learning rate that is a function is called once, when the step is traced; it may read
            a `tf.Variable`.
          num_train_steps: the step to stop at.
          config: a `TrainConfig`, None for the defaults.
          eval_data: a `data.input_pipeline.EvaluationInput` for `config.eval_steps`.
          epochs: the `progress.Epochs` with Keras callbacks, or None.

        Raises:
          UserError: if a loss is not finite, another process trains in the folder, or the run was
            started with a different optimizer.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved; or if another worker is lost.
        """
        with (
            exclusive_directory(self.output_dir, self.workers),
            PreemptionHandler() as preemption,
            self.workers.watched(),
        ):
            config = config or TrainConfig()
            Training(
                self, data, optimizer, num_train_steps, config, eval_data, epochs, preemption
            ).run()

    def use_best(self, metric):
        """Load the best checkpoint by a metric; UserError if the run has none."""
        folder = BestCheckpoint(self.output_dir, metric).folder
        prefix = checkpointing.restore_latest(folder, checkpointing.weights(self.model))
        if prefix is None:
            raise UserError(f"`best_metric`: found no checkpoint in {folder}")
        self.checkpoint, self.step = prefix, checkpointing.read_step(prefix)
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

    def evaluate(self, data, on_batch=None):
        """Return a dict of the metrics over all of `data`, and `global_step`."""
        predictions = concatenate(self.predict(data, "evaluating", on_batch=on_batch))
        results = {**self.task.metrics(predictions), "global_step": self.step}
        self.write_curves(results)
        return results

    def has_curves(self, name="eval"):
        """Return whether the curves `name` have results of this step."""
        folder = os.path.join(self.output_dir, name)
        for file_name in files.list_folder(folder) if files.is_folder(folder) else ():
            path = os.path.join(folder, file_name)
            with contextlib.suppress(tf.errors.DataLossError):  # the end, if a process was killed
                for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                    event = tf.compat.v1.Event.FromString(record)
                    if event.step == self.step and event.summary.value:
                        return True
        return False

    def write_curves(self, results, name="eval"):
        """Write results, which include `global_step`, to the curves `name`, on the chief."""
        if not self.workers.is_chief:
            return
        if name not in self._eval_writers:
            folder = os.path.join(self.output_dir, name)
            self._eval_writers[name] = tf.summary.create_file_writer(folder)
        with self._eval_writers[name].as_default(step=results["global_step"]):
            for metric, value in results.items():
                tf.summary.scalar(metric, value)
        self._eval_writers[name].flush()
