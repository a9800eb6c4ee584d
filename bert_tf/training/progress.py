"""Progress of the loop and of Keras' `fit`: log lines, curves, signals and callbacks."""

import collections
import contextlib
import signal
import threading
import time

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import Stopped, not_finite

SECONDS_PER_REPORT = 10.0  # after 40 seconds; before, proportionally less


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
        done, seconds = step - self.last_step, max(now - self.last_time, 1e-9)
        means = {name: value / done for name, value in self.sums.items()}
        examples = self.batch_size * done / seconds
        values = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        remaining = console.duration((self.num_train_steps - step) * seconds / done)
        # The first step includes compilation, so its speed would be misleading.
        speed = "compiled" if self.is_first else f"{examples:.1f} examples/s  {remaining} left"
        console.info(
            f"step {step}/{self.num_train_steps}  {values}  learning_rate {rate:.3g}  {speed}"
        )
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


class CheckLoss(keras.callbacks.Callback):
    """Stops training with a UserError when the loss is not finite."""

    async_safe = True  # lets Keras run without waiting for each step

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = float((logs or {}).get("loss", 0.0))  # the mean over the epoch so far
        if not np.isfinite(loss):
            hint = "; load the model again, because its weights are damaged"
            steps = self.params["steps"]  # with `steps_per_execution`, `batch` may exceed it
            raise not_finite("loss", loss, self._epoch * steps + min(batch + 1, steps), hint)


class AddScores(keras.callbacks.Callback):
    """Adds scores to the logs of epochs. Must come before callbacks that read them."""

    def __init__(self, compute, freq):
        """Create the callback from a function that returns a dict; names get the prefix "val_".

        `freq` is Keras' `validation_freq`: a number of epochs, or a list of epochs from 1.
        """
        super().__init__()
        self._compute, self._freq = compute, freq

    def on_epoch_end(self, epoch, logs=None):
        epochs = range(0, epoch + 2, self._freq) if isinstance(self._freq, int) else self._freq
        for name, value in (self._compute() if epoch + 1 in epochs else {}).items():
            logs.setdefault(f"val_{name}", value)  # Keras' value if `compile` set the loss


class EpochCallbacks:
    """Calls Keras callbacks with the logs of each epoch of the loop, as `keras.Model.fit` does."""

    def __init__(self, model, callbacks, num_epochs, num_steps):
        """Divide `num_steps` into epochs."""
        steps = num_steps // num_epochs
        self.callbacks = keras.callbacks.CallbackList(
            callbacks, add_history=True, model=model, epochs=num_epochs, steps=steps
        )
        self._model, self._num_epochs, self._steps_per_epoch = model, num_epochs, steps
        self._sums, self._num_steps, self._epoch = collections.Counter(), 0, 0

    @property
    def end(self):
        return (self._epoch + 1) * self._steps_per_epoch

    @property
    def must_stop(self):
        return self._model.stop_training

    def ends_at(self, step):
        return step > 0 and step % self._steps_per_epoch == 0

    def start(self, step, is_evaluated=True):
        """Start at a step; at the end of an epoch without its evaluation, `finish` comes next."""
        self._epoch = step // self._steps_per_epoch - (self.ends_at(step) and not is_evaluated)
        self._step = step
        self.callbacks.on_train_begin()
        self._model.stop_training = False
        if self._epoch < self._num_epochs:
            self.callbacks.on_epoch_begin(self._epoch)

    def add(self, sums, step):
        """Add the sums of results over the steps up to `step`."""
        self._sums.update(sums)
        self._step, self._num_steps = step, self._num_steps + step - self._step

    def finish(self, scores):
        """Call the callbacks with the means of the results and the scores of `Loop.evaluate`."""
        logs = {name: value / self._num_steps for name, value in self._sums.items()}
        names = {name: name.removeprefix("eval_") for name in scores if name != "global_step"}
        logs |= {f"val_{short}": float(scores[name]) for name, short in names.items()}
        self.callbacks.on_epoch_end(self._epoch, logs)
        self._sums.clear()
        self._num_steps, self._epoch = 0, self._epoch + 1
        if self._epoch < self._num_epochs and not self.must_stop:
            self.callbacks.on_epoch_begin(self._epoch)
