"""The training loop: steps on the devices; progress, checkpoints and evaluation on the host."""

import contextlib
import json
import os
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import Stopped, UserError, abbreviate, not_finite
from bert_tf.io import files, locks
from bert_tf.optimization import AdamWeightDecay, trainable_weights
from bert_tf.training import checkpointing
from bert_tf.training.step import TrainStep

_LOCKED: set[str] = set()


@contextlib.contextmanager
def exclusive_directory(output_dir, workers=None, is_training=True):
    """Lock a folder for this process; UserError if another process trains there.

    With several `workers`, the chief locks it. Locking a folder again in the same process has no
    effect. Before training, partial files of killed processes are removed. After a UserError, a new
    folder is removed if nothing was written to it.
    """
    folder = output_dir if "://" in output_dir else os.path.realpath(output_dir)
    if folder in _LOCKED or (workers is not None and not workers.is_chief):
        yield
        return
    is_new = not files.system(output_dir).exists(output_dir)
    files.make_folder(output_dir)
    with locks.locked(output_dir, "output_dir", "trains") as is_locked:
        if is_training:
            locks.remove_temporary_files(output_dir, is_locked)
            locks.remove_temporary_files(os.path.join(output_dir, checkpointing.BEST), is_locked)
            checkpointing.remove_incomplete(output_dir, is_locked)
        _LOCKED.add(folder)
        try:
            yield
        except UserError:
            if is_new:
                locks.remove_unused(output_dir)
            raise
        finally:
            _LOCKED.remove(folder)


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

    def _handle(self, number, _):
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        console.info("%s: finishing the step and saving", self.signal.name)

    def stop(self, step):
        """Raise `Stopped`; the state at `step` must have been saved."""
        by = self.signal.name if self.signal else "another worker's signal"
        raise Stopped(
            f"stopped by {by} at step {step}, which is saved; run the same command to continue",
            130 if self.signal == signal.SIGINT else Stopped.RESUME_ME,
        )


SECONDS_PER_REPORT = 10.0


class Report:
    """Logs the mean results of the steps, and writes them to TensorBoard."""

    def __init__(self, output_dir, step, num_train_steps, batch_size, writes=True):
        self.num_train_steps, self.batch_size = num_train_steps, batch_size
        self.writer = (
            tf.summary.create_file_writer(output_dir) if writes else tf.summary.create_noop_writer()
        )
        self.last_step, self.last_time = step, time.monotonic()
        self.sums = {}
        self.is_first = True

    def add(self, step, sums, rate, is_last=False):
        """Add the sums over the steps up to `step`, and log a line every few seconds."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        now = time.monotonic()
        if not (self.is_first or is_last or now - self.last_time >= SECONDS_PER_REPORT):
            return
        done, seconds = step - self.last_step, max(now - self.last_time, 1e-9)
        means = {name: value / done for name, value in self.sums.items()}
        examples = self.batch_size * done / seconds
        values = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        remaining = console.duration((self.num_train_steps - step) * seconds / done)
        # The first step includes compilation, so its speed would be misleading.
        speed = "compiled" if self.is_first else f"{examples:.1f} examples/s  {remaining} left"
        console.info(
            "step %d/%d  %s  learning_rate %.3g  %s",
            step, self.num_train_steps, values, rate, speed,
        )  # fmt: skip
        with self.writer.as_default(step=step):
            for name, value in means.items():
                tf.summary.scalar(name, value)
            tf.summary.scalar("learning_rate", rate)
            if not self.is_first:
                tf.summary.scalar("examples_per_second", examples)
        self.sums, self.last_step, self.last_time, self.is_first = {}, step, now, False

    @contextlib.contextmanager
    def paused(self):
        """Exclude the time of this context from the speed."""
        start = time.monotonic()
        yield
        self.last_time += time.monotonic() - start


# Approximate time between returns to the host, which reports, saves and evaluates.
SECONDS_PER_LOOP = 2.0


def _unbuilt_copy(optimizer):
    """Return an unbuilt copy of an optimizer; UserError if the loop cannot use the optimizer."""
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
    return optimizer.unbuilt_copy()


def _describe(optimizer):
    settings = {
        "optimizer": {"class_name": type(optimizer).__name__, **optimizer.hyperparameters},
        "learning_rate": optimizer.rate_config,
    }
    # The round trip converts NumPy numbers and tuples, as in a restored checkpoint.
    return json.loads(json.dumps(settings, default=float))


class TrainLoop:
    """The loop of `Trainer.fit`, starting from the newest checkpoint."""

    def __init__(self, trainer, data, optimizer, num_train_steps, config, eval_data, epochs=None):
        self.trainer, self.data, self.epochs = trainer, data, epochs
        self.num_train_steps, self.config, self.eval_data = num_train_steps, config, eval_data
        self.strategy, self.workers = trainer.strategy, trainer.workers
        with self.strategy.scope():
            self.optimizer = optimizer = _unbuilt_copy(optimizer)
            weights = checkpointing.weights(trainer.model)
            trained = checkpointing.weights(trainer.model, trainable_only=True)
            optimizer.build(trainable_weights(trained, config.num_frozen_layers))
            self.train_step = TrainStep(trainer.task, optimizer, config)
        self.state = checkpointing.run_state(trainer.model, optimizer, self.train_step.loss_scale)
        self.weights = {**weights, "global_step": optimizer.step}
        # All except the optimizer determine the examples of each step.
        self.training_settings = {
            "train_batch_size": data.batch_size,
            "seed": data.seed,
            "bucket_by_length": int(data.bucket_by_length),
            "num_input_streams": data.num_input_streams,
            **_describe(optimizer),
        }
        if data.identity:
            # The number of files, their bytes and a digest of their names and sizes.
            self.training_settings["input"] = list(data.identity)
        newest = checkpointing.restore_latest(trainer.output_dir, self.state)
        if newest:
            trainer.checkpoint = newest
            checkpointing.check_training_settings(newest, self.training_settings)
        self.step = int(optimizer.step.numpy())
        self.best = None
        if config.best_metric:
            self.best = checkpointing.BestCheckpoint(trainer.output_dir, config.best_metric)
            self.best.rewind(self.step)
            # A finished run keeps its evaluations, because only its last weights can be evaluated.
            if self.step < num_train_steps or not self.best.has_seen(self.step):
                self.best.use_data(eval_data.identity)
        files_key = float(data.identity[2] % 2**40) if data.identity else 0.0
        mean_step, mean_key = self.workers.mean(self.step, files_key)
        if mean_key != files_key:
            raise UserError("`input_file`: the workers see different files")
        if mean_step != self.step:
            raise UserError(
                f"`output_dir`: the newest checkpoint in {trainer.output_dir} is from step "
                f"{self.step} here, but from a different step on other workers; all must see the "
                "same folder"
            )

    def run(self, preemption):
        """Train until the last step, early stopping or a signal."""
        self.preemption = preemption
        if self.best and self._is_due(self.config.eval_steps):
            self._evaluate()  # the run was stopped before or during this evaluation
        if self._is_done:
            early = " and was stopped early" if self._is_stopped_early else ""
            console.info("training: nothing to do, the run is at step %d%s", self.step, early)
            # Old checkpoints remain if the process was killed in its last `_save`.
            folder = self.trainer.output_dir
            self.workers.chief_first(lambda: checkpointing.remove_old(folder, self.step))
            return
        console.info(
            "training: step %d to %d, %d examples each",
            self.step, self.num_train_steps, self.data.batch_size,
        )  # fmt: skip
        if self.epochs:
            if not self.step:
                self._save()  # the weights of the model, which another process may not have
            self.epochs.start(self.step)
        folder, writes = self.trainer.output_dir, self.workers.is_chief
        report = Report(folder, self.step, self.num_train_steps, self.data.batch_size, writes)
        with contextlib.closing(report.writer):
            for sums, first_bad in self._loops():
                self._finish_steps(sums, first_bad, report)
                if self._is_done:
                    break
        if self._is_stopped_early:
            console.info("training: stopped early at step %d", self.step)
        if self.epochs:
            self.epochs.callbacks.on_train_end()

    def _finish_steps(self, sums, first_bad, report):
        must_stop = self._must_stop()
        rate = float(self.optimizer.learning_rate_at(self.step - 1))
        report.add(self.step, sums, rate, is_last=must_stop or self.step == self.num_train_steps)
        self._check_finite(sums, first_bad)
        must_evaluate = self._is_due(self.config.eval_steps)
        ends_epoch = self.epochs and self.epochs.add(sums, self.step)
        must_save = self._is_due(self.config.save_checkpoints_steps) or ends_epoch
        # Save first, because an evaluation may take longer than the notice before a preemption.
        if must_save or must_evaluate or must_stop:
            self._save()
        if must_stop:
            self.preemption.stop(self.step)
        if must_evaluate:
            with report.paused():
                self._evaluate()
        if ends_epoch:
            with report.paused():
                self.epochs.finish(self.trainer.evaluate)

    def _must_stop(self):
        """Return whether any worker received a signal, so that all stop at the same step."""
        return self.workers.mean(float(bool(self.preemption.signal)))[0] > 0

    @property
    def _is_done(self):
        must_stop = self.epochs and self.epochs.must_stop
        return self.step >= self.num_train_steps or must_stop or self._is_stopped_early

    @property
    def _is_stopped_early(self):
        patience = self.config.early_stopping_patience
        return bool(patience and self.best) and len(self.best.since) >= patience

    def _is_due(self, every):
        if not every or not self.step:
            return False
        return self.step % every == 0 or self.step == self.num_train_steps

    def _loops(self):
        """Run all steps; after each return to the host, yield (sums, first bad step or -1)."""
        if self.step:
            # The chief counts the records if necessary; the others read its file.
            cache = os.path.join(self.trainer.output_dir, "records" + files.RECORD_COUNTS)
            self.workers.chief_first(lambda: self.data.load_counts(cache))
            self.data.load_counts(cache)
        batches = iter(
            self.strategy.distribute_datasets_from_function(
                lambda context: self.data.batches(self.step, context)
            )
        )
        run_steps = self._make_run_steps()
        stops = (self.config.save_checkpoints_steps, self.config.eval_steps)
        max_steps = 1  # until the speed is measured
        while self.step < self.num_train_steps:
            remaining = [every - self.step % every for every in stops if every]
            remaining.append(self.num_train_steps - self.step)
            if self.epochs:
                remaining.append(self.epochs.end - self.step)
            steps = min(max_steps, self.config.iterations_per_loop, *remaining)
            start = time.monotonic()
            sums, first_bad = run_steps(batches, tf.constant(steps))
            sums = {name: float(value) for name, value in sums.items()}
            (seconds,) = self.workers.mean((time.monotonic() - start) / steps)
            max_steps = max(1, int(SECONDS_PER_LOOP / max(seconds, 1e-6)))
            first_bad = self.step + int(first_bad) + 1 if first_bad >= 0 else -1
            self.step += steps
            yield sums, first_bad

    def _make_run_steps(self):
        strategy, train_step = self.strategy, self.train_step

        @tf.function
        def run_steps(batches, steps):
            sums = dict.fromkeys(train_step.names, tf.constant(0.0))
            first_bad = tf.constant(-1)
            for i in tf.range(steps):
                values = strategy.run(train_step.replica_step, args=(next(batches),))
                # All replicas have the same values after the reduction: take the first.
                values = {
                    name: strategy.experimental_local_results(value)[0]
                    for name, value in values.items()
                }
                sums = {name: sums[name] + values[name] for name in sums}
                is_finite = tf.reduce_all(tf.math.is_finite(list(values.values())))
                first_bad = tf.where(is_finite | (first_bad >= 0), first_bad, i)
            return sums, first_bad

        return run_steps

    def _check_finite(self, sums, first_bad):
        if first_bad < 0:
            return
        name, value = next((n, v) for n, v in sums.items() if not np.isfinite(v))
        paths = abbreviate(self.data.files_at_step(first_bad - 1))
        newest = self.trainer.checkpoint
        last = f"the last checkpoint is {newest}" if newest else "there is no checkpoint yet"
        raise not_finite(name, value, first_bad, f", with a batch from {paths}; {last}")

    def _evaluate(self):
        if self.best and self.best.has_seen(self.step):
            return

        def stop_if_asked():
            # Several workers evaluate together, so no worker may stop alone.
            if self.preemption.signal and not self.workers.is_multi_worker:
                self.preemption.stop(self.step)

        results = self.trainer.evaluate(self.eval_data, self.step, on_batch=stop_if_asked)
        shown = "  ".join(f"{n} {v:.4f}" for n, v in results.items() if n != "global_step")
        console.info("step %d/%d  evaluation: %s", self.step, self.num_train_steps, shown)
        if self.best:
            self.best.update(results, self.weights, self.workers.is_chief)
        if self._must_stop():
            self.preemption.stop(self.step)

    def _save(self):
        folder = self.trainer.output_dir
        self.workers.chief_first(
            lambda: checkpointing.save(folder, self.state, self.training_settings)
        )
        self.trainer.checkpoint = checkpointing.latest(folder)
