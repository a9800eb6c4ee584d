"""What the training loop shares with its user: signals to stop, log lines and TensorBoard."""

import contextlib
import signal
import threading
import time

import tensorflow as tf

from bert_tf import console
from bert_tf.errors import Stopped

SECONDS_PER_REPORT = 10.0


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
