"""`Loop`: an objective with its weights on the devices of an engine, which trains and predicts."""

import collections
import contextlib
import functools
import os
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.release import check_path
from bert_tf.configs.train import TrainConfig
from bert_tf.errors import Stopped, UserError, not_finite
from bert_tf.io import files
from bert_tf.optimization import AdamWeightDecay
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import BestCheckpoint, exclusive_directory
from bert_tf.training.engine import Engine
from bert_tf.training.objective import concatenate

# Approximate time between returns to the host, which reports, saves and evaluates.
SECONDS_PER_LOOP = 2.0

SECONDS_PER_REPORT = 10.0  # from second 40 on; proportionally shorter before


class PreemptionHandler:
    """Records SIGTERM and Ctrl-C, so that the loop can stop; a second Ctrl-C stops immediately.

    >>> with PreemptionHandler() as preemption:
    ...     while not preemption.signal:
    ...         step()
    """

    signals = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.signal = None
        self._previous = {}

    def __enter__(self):
        # Python handles signals in the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._previous = {x: signal.signal(x, self._handle) for x in self.signals}
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            # A handler of None was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self.signal = None

    def _handle(self, number, _):
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        console.info("%s: finishing the current steps and saving", self.signal.name)

    def stop(self, step):
        """Raise `Stopped`; the state at `step` must have been saved."""
        by = self.signal.name if self.signal else "another worker's signal"
        raise Stopped(
            f"stopped by {by} at step {step}, which is saved; run the same command to continue",
            130 if self.signal == signal.SIGINT else Stopped.RESUME_ME,
        )


class Report:
    """Logs the mean results of the steps, and writes them to TensorBoard."""

    def __init__(self, output_dir, step, num_train_steps, batch_size, writes):
        self.num_train_steps, self.batch_size = num_train_steps, batch_size
        self.writer = (
            tf.summary.create_file_writer(output_dir) if writes else tf.summary.create_noop_writer()
        )
        self.last_step, self.last_time, self.start = step, time.monotonic(), time.monotonic()
        self.sums, self.is_first = collections.Counter(), True

    def add(self, step, sums, rate, is_last=False):
        """Add the sums over the steps up to `step`, and log a line every few seconds."""
        self.sums.update(sums)
        now = time.monotonic()
        interval = SECONDS_PER_REPORT * min(1.0, (now - self.start) / 40.0)
        if not (self.is_first or is_last or now - self.last_time >= interval):
            return
        total, done = self.num_train_steps, step - self.last_step
        seconds = max(now - self.last_time, 1e-9)
        means = {name: value / done for name, value in self.sums.items()}
        examples = self.batch_size * done / seconds
        values = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        remaining = console.duration((total - step) * seconds / done)
        # The first step includes compilation, so its speed would be misleading.
        speed = "compiled" if self.is_first else f"{examples:.1f} examples/s  {remaining} left"
        console.info(f"step {step}/{total}  {values}  learning_rate {rate:.3g}  {speed}")
        with self.writer.as_default(step=step):
            for name, value in means.items():
                tf.summary.scalar(name, value)
            tf.summary.scalar("learning_rate", rate)
            if not self.is_first:
                tf.summary.scalar("examples_per_second", examples)
        self.sums.clear()
        self.last_step, self.last_time, self.is_first = step, now, False

    @contextlib.contextmanager
    def paused(self):
        """Exclude the time of this context from the speed."""
        start = time.monotonic()
        yield
        self.last_time += time.monotonic() - start


class Loop:
    """Trains, evaluates and predicts with one objective on one engine.

    Attributes:
      objective: the `training.Objective`, and `model` its Keras model.
      step: the step of the weights.
      checkpoint: the path of the newest checkpoint in `output_dir`, None without one.
      engine: the `training.Engine`.
    """

    engine: Engine

    def __init__(
        self,
        make_objective,
        engine,
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
          make_objective: function without arguments that returns the `training.Objective`.
          engine: a `training.Engine`.
          output_dir: folder of the run's checkpoints and summaries.
          init_checkpoint: a release checkpoint, another run's checkpoint, or a Hugging Face folder.
          must_be_trained: whether all weights must be loaded, as for evaluation and prediction.
          labels: labels of the classification layer, if any.
          is_loaded: whether the model of the objective already has its initial weights.

        Raises:
          UserError: if a checkpoint does not fit the model, or a required one is missing.
        """
        self.engine, self.output_dir = engine, check_path(output_dir, "output_dir")
        self.preemption = PreemptionHandler()
        self._eval_writers = {}
        with engine.watched(), engine.scope():
            self.objective = make_objective()
        self.model = self.objective.model
        reads_padding = self.objective.reads_padding
        self.model.skip_padding = engine.can_skip_padding(reads_padding=reads_padding)
        count = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        console.info("model: %s, %.1f M parameters", self.model.name, count / 1e6)
        if self.restore(self.output_dir, checkpoints.weights(self.model)):
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

    def restore(self, folder, variables):
        """Load the newest checkpoint in a folder; return whether there is one."""
        newest = self.checkpoint = checkpointing.restore_latest(folder, variables)
        self.step = checkpointing.read_step(newest) if newest else 0
        return newest is not None

    def load_best(self, metric):
        """Load the best checkpoint by a metric; raise UserError if the run has none."""
        folder = BestCheckpoint(self.output_dir, metric).folder
        if not self.restore(folder, checkpoints.weights(self.model)):
            raise UserError(f"`best_metric`: found no checkpoint in {folder}")
        console.info("weights: the best checkpoint of this run, %s", self.checkpoint)

    def train(
        self, train_input, optimizer, num_train_steps, config=None, eval_input=None, epochs=None
    ):
        """Train up to `num_train_steps`, starting from the newest checkpoint.

        Args:
          train_input: endless batches, a `data.input_pipeline.TrainingInput`.
          optimizer: a new optimizer of `bert_tf.optimization`, made in the scope of the engine.
            A learning rate that is a function is called once, when the step is traced; it may read
            a `tf.Variable`.
          num_train_steps: the step to stop at.
          config: a `TrainConfig`, None for the defaults.
          eval_input: a `data.input_pipeline.EvaluationInput` for `config.eval_steps`.
          epochs: the `EpochCallbacks` with Keras callbacks, or None.

        Raises:
          UserError: if a loss is not finite, another process trains in the folder, or the run was
            started with a different optimizer.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved; or if another worker is lost.
        """
        with (
            contextlib.ExitStack() as stack,
            exclusive_directory(self.output_dir, self.engine),
            self.preemption,
            self.engine.watched(),
        ):
            stack.callback(self.engine.release)
            config = config or TrainConfig()
            _Training(
                self, train_input, optimizer, num_train_steps, config, eval_input, epochs
            ).run()

    def check_resume(self, optimizer, config):
        """Raise UserError if the run has a different optimizer, metric or frozen layers.

        `train` also raises it, but after the caller has prepared the data.

        Args:
          optimizer: a new one of `bert_tf.optimization`.
          config: a `TrainConfig`.
        """
        if self.checkpoint:
            checkpointing.check_optimizer(self.checkpoint, optimizer, self.model)
        if config.best_metric:
            BestCheckpoint(self.output_dir, config.best_metric)

    @functools.cached_property
    def _predict_step(self):
        return self.engine.predict_step(self.objective)

    def predict(self, eval_input, description, total=None):
        """Yield the predictions of each batch, in order, as dicts of numpy arrays.

        Every worker gets the predictions of all workers.

        Args:
          eval_input: a `data.input_pipeline.EvaluationInput`; the rows that fill its last batch are
            dropped.
          description: label of the progress bar.
          total: number of examples, if known.
        """
        progress = console.ProgressLog(description, "examples", total=total)
        with self.engine.watched():
            for values in self.engine.predict(self._predict_step, eval_input):
                real = values.pop("is_real_example").astype(bool)
                progress.add(int(real.sum()))
                # Several workers predict together, so no worker may stop alone.
                if self.preemption.signal and not self.engine.is_multi_worker:
                    self.preemption.stop(self.step)
                yield {name: value[real] for name, value in values.items()}
        progress.done()

    def evaluate(self, eval_input):
        """Return a dict of the metrics over all of `eval_input`, and `global_step`."""
        predictions = concatenate(self.predict(eval_input, "evaluating"))
        results = {**self.objective.metrics(predictions), "global_step": self.step}
        self.write_curves(results)
        return results

    def has_curves(self):
        """Return whether the curves of evaluations have results of this step."""
        folder = os.path.join(self.output_dir, "eval")
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
        if not self.engine.is_chief:
            return
        if name not in self._eval_writers:
            folder = os.path.join(self.output_dir, name)
            self._eval_writers[name] = tf.summary.create_file_writer(folder)
        with self._eval_writers[name].as_default(step=results["global_step"]):
            for metric, value in results.items():
                tf.summary.scalar(metric, value)
        self._eval_writers[name].flush()


class _Training:
    """One call of `Loop.train`: its arguments, the engine, the best checkpoint and the settings."""

    def __init__(self, loop, train_input, optimizer, num_train_steps, config, eval_input, epochs):
        if not isinstance(optimizer, AdamWeightDecay):
            found = type(optimizer).__name__
            raise UserError(f"`optimizer`: found {found}, expected one of bert_tf.optimization")
        for name in ("use_ema", "loss_scale_factor", "gradient_accumulation_steps"):
            if getattr(optimizer, name):
                raise UserError(f"`{name}` has an effect only in Keras' fit; see `TrainConfig`")
        if config.num_frozen_layers:
            loop.model.freeze(config.num_frozen_layers)
        self.loop, self.engine, self.config = loop, loop.engine, config
        self.train_input, self.eval_input, self.epochs = train_input, eval_input, epochs
        self.optimizer, self.num_train_steps = optimizer, num_train_steps
        self.best = config.best_metric and BestCheckpoint(loop.output_dir, config.best_metric)
        self.engine.prepare(loop.objective, optimizer, config, num_train_steps)
        self.settings = checkpointing.settings_of_run(
            loop.objective, train_input, optimizer, config.num_frozen_layers
        )

    def run(self):
        loop = self.loop
        self._resume()
        is_evaluated = self._is_evaluated()
        if self.epochs:
            if not loop.step:
                self._save()  # the weights of the model, which may be new
            self.epochs.start(loop.step, is_evaluated)
        if not is_evaluated:  # the run was stopped before or during this evaluation
            self._evaluate()
        if self._is_done:
            early = " and was stopped early" if self._is_stopped_early else ""
            console.info("training: nothing to do, the run is at step %d%s", loop.step, early)
            # Old checkpoints remain if the process was killed in its last `_save`.
            self.engine.chief_first(lambda: checkpointing.remove_old(loop.output_dir, loop.step))
        else:
            self._train()
        if self.epochs:
            self.epochs.callbacks.on_train_end()

    def _resume(self):
        """Load the state of the newest checkpoint, and compare this run with it."""
        loop = self.loop
        if loop.restore(loop.output_dir, self.engine.state):
            checkpointing.check_training_settings(loop.checkpoint, self.settings)
        if self.best:
            self.best.rewind(loop.step)
            # A finished run keeps its evaluations, because only its last weights can be evaluated.
            if loop.step < self.num_train_steps or not self.best.has_seen(loop.step):
                self.best.use_data(self.eval_input.fingerprint)
        files_key = self.train_input.fingerprint[2] % 2**40 if self.train_input.fingerprint else 0
        if not self.engine.all_equal(files_key):
            raise UserError("`input_file`: the workers see different files")
        if not self.engine.all_equal(loop.step):
            raise UserError(
                f"`output_dir`: the newest checkpoint in {loop.output_dir} is from step "
                f"{loop.step} here, but from a different step on other workers; all must see the "
                "same folder"
            )

    def _train(self):
        """Train until the last step, early stopping or a signal."""
        loop = self.loop
        last_step, size = self.num_train_steps, self.train_input.batch_size
        console.info("training: step %d to %d, %d examples each", loop.step, last_step, size)
        report = Report(loop.output_dir, loop.step, last_step, size, self.engine.is_chief)
        with contextlib.closing(report.writer):
            for sums, first_bad in self._host_loops():
                must_stop = self._must_stop()
                rate = float(self.optimizer.learning_rate_at(loop.step - 1))
                report.add(loop.step, sums, rate, must_stop or loop.step == last_step)
                if first_bad:
                    raise self._not_finite(sums, first_bad)
                if self.epochs:
                    self.epochs.add(sums, loop.step)
                must_save = self._is_due(self.config.save_checkpoints_steps)
                # Save first: an evaluation may take longer than the notice before a preemption.
                if must_save or self._must_evaluate or self._ends_epoch or must_stop:
                    self._save()
                with report.paused():
                    self._evaluate(must_stop)
                if self._is_stopped_early:
                    console.info("training: stopped early at step %d", loop.step)

    def _host_loops(self):
        """Run all steps; after each return to the host, yield the sums of the results since.

        The second value is the first step whose results are not finite, or None.
        """
        loop, train_input = self.loop, self.train_input
        first_step = loop.step
        if first_step:
            # The chief counts the records if necessary; the others read its file.
            cache = os.path.join(loop.output_dir, "records" + files.RECORD_COUNTS)
            self.engine.chief_first(lambda: train_input.load_counts(cache))
            train_input.load_counts(cache)
        batches = self.engine.batches(train_input, first_step)
        max_steps = 1  # until the speed is measured
        while not self._is_done:
            step = loop.step
            periods = filter(None, (self.config.save_checkpoints_steps, self.config.eval_steps))
            stops = [self.num_train_steps, *(step + x - step % x for x in periods)]
            if self.epochs:
                stops.append(self.epochs.end)
            steps = min(max_steps, self.config.iterations_per_loop, min(stops) - step)
            start = time.monotonic()
            sums, first_bad = self.engine.run_steps(batches, steps)
            seconds = self.engine.mean((time.monotonic() - start) / steps)
            max_steps = max(1, int(SECONDS_PER_LOOP / max(seconds, 1e-6)))
            loop.step += steps
            yield sums, step + first_bad + 1 if first_bad >= 0 else None

    def _must_stop(self):
        """Return whether any worker received a signal, so that all stop at the same step."""
        return self.engine.mean(self.loop.preemption.signal is not None) > 0

    @property
    def _is_stopped_early(self):
        patience = self.config.early_stopping_patience
        return bool(patience and self.best) and len(self.best.since) >= patience

    @property
    def _is_done(self):
        must_stop = self.epochs and self.epochs.must_stop
        return self.loop.step >= self.num_train_steps or must_stop or self._is_stopped_early

    def _is_due(self, every):
        loop = self.loop
        return bool(every and loop.step) and (
            loop.step % every == 0 or loop.step == self.num_train_steps
        )

    def _not_finite(self, sums, step):
        name, value = next((n, v) for n, v in sums.items() if not np.isfinite(v))
        newest = self.loop.checkpoint
        last = f"the last checkpoint is {newest}" if newest else "there is no checkpoint yet"
        return not_finite(name, value, step, f"; {last}")

    def _save(self):
        loop = self.loop
        self.engine.chief_first(
            lambda: checkpointing.save(loop.output_dir, self.engine.state, self.settings)
        )
        loop.checkpoint = checkpointing.latest(loop.output_dir)

    @property
    def _ends_epoch(self):
        return bool(self.epochs) and self.epochs.ends_at(self.loop.step)

    @property
    def _must_evaluate(self):
        return self._is_due(self.config.eval_steps) or (self._ends_epoch and self.eval_input)

    def _is_evaluated(self):
        """Return whether no evaluation is due at this step, or it is complete."""
        if not self._must_evaluate:
            return True
        if self.best and self._is_due(self.config.eval_steps):
            return self.best.has_seen(self.loop.step)
        return self.engine.mean(self.loop.has_curves()) == 1

    def _evaluate(self, must_stop=False):
        """Evaluate and call the callbacks at the end of an epoch, if due; stop after a signal."""
        loop = self.loop
        results = {}
        if self._must_evaluate:
            if must_stop:
                loop.preemption.stop(loop.step)  # the resumed run evaluates
            results = loop.evaluate(self.eval_input)
        if self._is_due(self.config.eval_steps):
            shown = "  ".join(f"{n} {v:.4f}" for n, v in results.items() if n != "global_step")
            console.info("step %d/%d  evaluation: %s", loop.step, self.num_train_steps, shown)
            if self.best:
                weights = checkpoints.weights(loop.model)
                weights["global_step"] = self.optimizer.step
                self.best.update(results, weights, self.engine.is_chief)
        if self._ends_epoch:
            self.epochs.finish(results)
        if must_stop or (results and self._must_stop()):
            loop.preemption.stop(loop.step)
