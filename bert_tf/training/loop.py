"""The loop: training steps on the devices; progress, checkpoints and evaluation on the host."""

import contextlib
import dataclasses
import functools
import json
import os
import time

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.release import check_path
from bert_tf.configs.train import TrainConfig
from bert_tf.errors import UserError, abbreviate, not_finite
from bert_tf.io import files
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.optimization import AdamWeightDecay
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import BestCheckpoint, exclusive_directory
from bert_tf.training.progress import PreemptionHandler, Report
from bert_tf.training.step import LossScale, make_run_steps, make_train_step
from bert_tf.training.strategy import Workers, on_all_replicas, use_xla

# Approximate time between returns to the host, which reports, saves and evaluates.
SECONDS_PER_LOOP = 2.0


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

    def train(
        self, data, make_optimizer, num_train_steps, config=None, eval_data=None, epochs=None
    ):
        """Train up to `num_train_steps`, starting from the newest checkpoint.

        Args:
          data: endless batches, a `data.input_pipeline.TrainingInput`.
          make_optimizer: function without arguments that returns an optimizer of
            `bert_tf.optimization`. A learning rate that is a function is called once, when the step
            is traced; it may read a `tf.Variable`.
          num_train_steps: the step to stop at.
          config: a `TrainConfig`, None for the defaults.
          eval_data: a `data.input_pipeline.EvaluationInput` for `config.eval_steps`.
          epochs: the `progress.Epochs` with Keras callbacks, or None.

        Raises:
          UserError: if a loss is not finite, another process trains in the folder, or the run was
            started with a different optimizer.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved; or if another worker is lost.
        """
        config = config or TrainConfig()
        if config.xla is not None and isinstance(self.strategy, tf.distribute.TPUStrategy):
            console.warning("`xla` has no effect on a TPU, which always compiles with it")
        xla = use_xla(config.xla, self.strategy, num_train_steps)
        self._config = config = dataclasses.replace(config, xla=xla)
        self._data, self._eval_data, self._epochs = data, eval_data, epochs
        self._num_train_steps = num_train_steps
        self.model.skip_padding &= can_skip_padding(self.strategy, xla)
        with (
            exclusive_directory(self.output_dir, self.workers),
            PreemptionHandler() as self._preemption,
            self.workers.watched(),
        ):
            with self.strategy.scope():
                self._optimizer = optimizer = _checked(make_optimizer())
                if config.num_frozen_layers:
                    self.model.freeze(config.num_frozen_layers)
                optimizer.build(checkpointing.weights(self.model, trainable_only=True))
                loss_scale = LossScale.of(self.model)
                train_step = make_train_step(self.task, optimizer, config, loss_scale)
            self._state = checkpointing.run_state(self.model, optimizer, loss_scale)
            try:
                self._resume()
                if self._best and self._is_due(config.eval_steps):
                    self._evaluate()  # the run was stopped before or during this evaluation
                if epochs:
                    if not self.step:
                        self._save()  # the weights of the model, which may be new
                    epochs.start(self.step)
                if self._is_done:
                    early = " and was stopped early" if self._is_stopped_early else ""
                    console.info(
                        "training: nothing to do, the run is at step %d%s", self.step, early
                    )
                    # Old checkpoints remain if the process was killed in its last `_save`.
                    self.workers.chief_first(
                        lambda: checkpointing.remove_old(self.output_dir, self.step)
                    )
                else:
                    self._run(train_step)
                if epochs:
                    epochs.callbacks.on_train_end()
            finally:
                del self._optimizer, self._state  # the memory of the moments

    def _resume(self):
        """Load the newest checkpoint, and compare the settings of this run with it."""
        # All except the optimizer determine the examples of each step.
        data, optimizer = self._data, self._optimizer
        settings = {
            "train_batch_size": data.batch_size,
            "seed": data.seed,
            "bucket_by_length": int(data.bucket_by_length),
            "num_input_streams": data.num_input_streams,
            "optimizer": {"class_name": type(optimizer).__name__, **optimizer.hyperparameters},
            "learning_rate": optimizer.rate_config,
        }
        # The round trip converts NumPy numbers and tuples, as in a restored checkpoint.
        self._settings = json.loads(json.dumps(settings, default=float))
        files_key = 0.0
        if data.identity:
            # The number of files, their bytes and a digest of their names and sizes.
            self._settings["input"] = list(data.identity)
            files_key = float(data.identity[2] % 2**40)
        newest = checkpointing.restore_latest(self.output_dir, self._state)
        if newest:
            self.checkpoint = newest
            checkpointing.check_training_settings(newest, self._settings)
        self.step = int(optimizer.step.numpy())
        self._best = None
        if self._config.best_metric:
            self._best = best = BestCheckpoint(self.output_dir, self._config.best_metric)
            best.rewind(self.step)
            # A finished run keeps its evaluations, because only its last weights can be evaluated.
            if self.step < self._num_train_steps or not best.has_seen(self.step):
                best.use_data(self._eval_data.identity)
        mean_step, mean_key = self.workers.mean(self.step, files_key)
        if mean_key != files_key:
            raise UserError("`input_file`: the workers see different files")
        if mean_step != self.step:
            raise UserError(
                f"`output_dir`: the newest checkpoint in {self.output_dir} is from step "
                f"{self.step} here, but from a different step on other workers; all must see the "
                "same folder"
            )

    def _run(self, train_step):
        """Train until the last step, early stopping or a signal."""
        config, epochs, last_step = self._config, self._epochs, self._num_train_steps
        size, folder = self._data.batch_size, self.output_dir
        console.info("training: step %d to %d, %d examples each", self.step, last_step, size)
        report = Report(folder, self.step, last_step, size, self.workers.is_chief)
        with contextlib.closing(report.writer):
            for sums, first_bad in self._host_loops(train_step):
                must_stop = self._must_stop()
                rate = float(self._optimizer.learning_rate_at(self.step - 1))
                report.add(self.step, sums, rate, must_stop or self.step == last_step)
                self._check_finite(sums, first_bad)
                must_evaluate = self._is_due(config.eval_steps)
                must_save = self._is_due(config.save_checkpoints_steps)
                ends_epoch = epochs and epochs.add(sums, self.step)
                # Save first: an evaluation may take longer than the notice before a preemption.
                if must_save or must_evaluate or ends_epoch or must_stop:
                    self._save()
                with report.paused():
                    if ends_epoch:  # a resumed run starts with the next epoch
                        epochs.finish(self.evaluate)
                    if must_stop:
                        self._preemption.stop(self.step)
                    if must_evaluate:
                        self._evaluate()
                if self._is_stopped_early:
                    console.info("training: stopped early at step %d", self.step)

    def _host_loops(self, train_step):
        """Run all steps; after each return to the host, yield (sums, first bad step or -1)."""
        data, config, strategy = self._data, self._config, self.strategy
        if self.step:
            # The chief counts the records if necessary; the others read its file.
            cache = os.path.join(self.output_dir, "records" + files.RECORD_COUNTS)
            self.workers.chief_first(lambda: data.load_counts(cache))
            data.load_counts(cache)

        run_steps = make_run_steps(train_step, self.task, strategy)
        batches = iter(
            strategy.distribute_datasets_from_function(
                lambda context: data.batches(self.step, context)
            )
        )
        max_steps = 1  # until the speed is measured
        while not self._is_done:
            periods = filter(None, (config.save_checkpoints_steps, config.eval_steps))
            stops = [self._num_train_steps, *(self.step + x - self.step % x for x in periods)]
            if self._epochs:
                stops.append(self._epochs.end)
            steps = min(max_steps, config.iterations_per_loop, min(stops) - self.step)
            start = time.monotonic()
            sums, first_bad = run_steps(batches, tf.constant(steps))
            sums = {name: float(value) for name, value in sums.items()}
            (seconds,) = self.workers.mean((time.monotonic() - start) / steps)
            max_steps = max(1, int(SECONDS_PER_LOOP / max(seconds, 1e-6)))
            first_bad = self.step + int(first_bad) + 1 if first_bad >= 0 else -1
            self.step += steps
            yield sums, first_bad

    def _must_stop(self):
        """Return whether any worker received a signal, so that all stop at the same step."""
        return self.workers.mean(float(bool(self._preemption.signal)))[0] > 0

    @property
    def _is_stopped_early(self):
        patience = self._config.early_stopping_patience
        return bool(patience and self._best) and len(self._best.since) >= patience

    @property
    def _is_done(self):
        must_stop = self._epochs and self._epochs.must_stop
        return self.step >= self._num_train_steps or must_stop or self._is_stopped_early

    def _is_due(self, every):
        is_last = self.step == self._num_train_steps
        return bool(every and self.step) and (self.step % every == 0 or is_last)

    def _check_finite(self, sums, first_bad):
        if first_bad < 0:
            return
        name, value = next((n, v) for n, v in sums.items() if not np.isfinite(v))
        paths = abbreviate(self._data.files_at_step(first_bad - 1))
        newest = self.checkpoint
        last = f"the last checkpoint is {newest}" if newest else "there is no checkpoint yet"
        raise not_finite(name, value, first_bad, f", with a batch from {paths}; {last}")

    def _save(self):
        folder, state = self.output_dir, self._state
        self.workers.chief_first(lambda: checkpointing.save(folder, state, self._settings))
        self.checkpoint = checkpointing.latest(folder)

    def _evaluate(self):
        if self._best and self._best.has_seen(self.step):
            return

        def stop_if_asked():
            # Several workers evaluate together, so no worker may stop alone.
            if self._preemption.signal and not self.workers.is_multi_worker:
                self._preemption.stop(self.step)

        results = self.evaluate(self._eval_data, on_batch=stop_if_asked)
        shown = "  ".join(f"{n} {v:.4f}" for n, v in results.items() if n != "global_step")
        console.info("step %d/%d  evaluation: %s", self.step, self._num_train_steps, shown)
        if self._best:
            weights = checkpointing.weights(self.model)
            weights["global_step"] = self._optimizer.step
            self._best.update(results, weights, self.workers.is_chief)
        if self._must_stop():
            self._preemption.stop(self.step)

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

    def predict_all(self, data, description, total=None, on_batch=None):
        """Return all predictions as one dict of numpy arrays; UserError without examples."""
        parts = list(self.predict(data, description, total, on_batch))
        if not parts:
            raise UserError(f"{description}: there are no examples")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def evaluate(self, data, on_batch=None):
        """Return a dict of the metrics over all of `data`, and `global_step`."""
        return self.score(self.predict_all(data, "evaluating", on_batch=on_batch))

    def score(self, predictions, name="eval"):
        """Return the metrics of the result of `predict_all`; `name` labels their curves."""
        results = {**self.task.metrics(predictions), "global_step": self.step}
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


def _checked(optimizer):
    """Return an optimizer; UserError if the loop cannot use it."""
    if not isinstance(optimizer, AdamWeightDecay):
        raise UserError(
            f"`optimizer`: found {type(optimizer).__name__}, expected an optimizer of "
            "bert_tf.optimization; use other optimizers with Keras' compile and fit"
        )
    for name in ("use_ema", "loss_scale_factor", "gradient_accumulation_steps"):
        if getattr(optimizer, name):
            raise UserError(
                f"`{name}`: this option of an optimizer has an effect only in Keras' fit; for the "
                "training loop use the options of `TrainConfig`"
            )
    return optimizer
