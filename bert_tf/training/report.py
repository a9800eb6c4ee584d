"""Progress lines and TensorBoard curves."""

import contextlib
import time

import tensorflow as tf

from bert_tf import console

SECONDS_PER_REPORT = 10.0


class Report:
    """Means of what the steps report since the line before, as a line and as curves."""

    def __init__(self, output_dir, step, num_train_steps, batch_size, writes=True):
        """Opens the curves.

        Args:
          output_dir: their folder.
          step: the step that the run begins or goes on from.
          num_train_steps: where it ends.
          batch_size: the global batch.
          writes: whether this process writes curves.
        """
        self.num_train_steps, self.batch_size = num_train_steps, batch_size
        make = (
            tf.summary.create_file_writer if writes else lambda _: tf.summary.create_noop_writer()
        )
        self.writer = make(output_dir)
        self.last_step, self.last_time = step, time.monotonic()
        self.sums = {}
        self.is_first = True

    def add(self, step, sums, rate, is_last=False):
        """Takes in the sums over the steps up to `step`; `rate` is the last one's.

        A line is printed when one is due, and after the last steps.
        """
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        now = time.monotonic()
        if not (self.is_first or is_last or now - self.last_time >= SECONDS_PER_REPORT):
            return
        done, seconds = step - self.last_step, max(now - self.last_time, 1e-9)
        means = {name: value / done for name, value in self.sums.items()}
        examples = self.batch_size * done / seconds
        values = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        left = console.duration((self.num_train_steps - step) * seconds / done)
        # The first step holds the compilation; its speed would mislead.
        speed = "compiled" if self.is_first else f"{examples:.1f} examples/s  {left} left"
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
        """Leaves out of the speed what is done within, such as an evaluation."""
        start = time.monotonic()
        yield
        self.last_time += time.monotonic() - start

    def close(self):
        """Writes out what is left."""
        self.writer.close()
