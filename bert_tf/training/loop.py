"""The training loop: steps on the devices, and on the host what a person wants to see and keep."""

import os
import time

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, modeling
from bert_tf.errors import UserError
from bert_tf.training import checkpointing, guard

# Control comes back to the host about this often, to report and to see whether to save.
SECONDS_PER_LOOP = 2.0
SECONDS_PER_REPORT = 10.0


class Trainer:
    """Trains, evaluates and predicts one task on one strategy, with its files in `output_dir`."""

    def __init__(
        self, make_task, strategy, output_dir, init_checkpoint=None, must_be_trained=False
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

        Raises:
          UserError: if a checkpoint does not fit, or there is none and one is needed.
        """
        checkpoints.check_path(output_dir, "output_dir")
        self.strategy = strategy
        self.output_dir = output_dir
        with strategy.scope():
            self.task = make_task()
        self.model = self.task.model
        count = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        console.info("model: %s, %.1f M parameters", self.model.name, count / 1e6)
        weights = checkpointing.weights(self.model)
        self.checkpoint = checkpointing.restore_latest(output_dir, weights)
        if self.checkpoint:
            ignored = "; --init_checkpoint is not read" if init_checkpoint else ""
            console.info("weights: from this run's own %s%s", self.checkpoint, ignored)
        elif init_checkpoint:
            checkpoints.warm_start(self.model, init_checkpoint, require_all=must_be_trained)
        elif must_be_trained:
            raise UserError(
                f"--output_dir: there is no checkpoint in {output_dir}, nor an --init_checkpoint; "
                "the answers would be those of random weights"
            )
        else:
            console.info("weights: random, no --init_checkpoint is given")

    @property
    def step(self):
        """The step of the weights: that of the newest checkpoint, 0 before the first."""
        return checkpointing.step_of(self.checkpoint) if self.checkpoint else 0

    def train(
        self,
        make_batches,
        optimizer,
        num_train_steps,
        batch_size,
        save_checkpoints_steps=1000,
        iterations_per_loop=1000,
        gradient_accumulation_steps=1,
    ):
        """Trains up to `num_train_steps`, from where the newest checkpoint stands.

        Args:
          make_batches: function of the first step to a `tf.data.Dataset` that yields the global
            batches of that step and all later ones, without end.
          optimizer: one of `bert_tf.optimization`, not built yet.
          num_train_steps: the step to stop at.
          batch_size: examples in a global batch, to report the speed.
          save_checkpoints_steps: steps between two checkpoints.
          iterations_per_loop: the most steps between two returns to the host.
          gradient_accumulation_steps: parts that each replica's batch is worked through in, to need
            less memory; the step is that of the whole batch.

        Raises:
          UserError: if the loss is no longer a number, or another process trains in the folder.
          Stopped: after SIGTERM or Ctrl-C, when the state is saved.
        """
        with guard.only_one(self.output_dir), guard.Stopper() as stopper:
            with self.strategy.scope():
                optimizer.build(checkpointing.weights(self.model))
            state = checkpointing.run_state(self.model, optimizer)
            if self.checkpoint:
                self.checkpoint = checkpointing.restore_latest(self.output_dir, state)
            step = self.step
            if step >= num_train_steps:
                console.info("training: nothing to do, %s has %d steps", self.checkpoint, step)
                return
            console.info(
                "training: step %d to %d, %d examples each", step, num_train_steps, batch_size
            )
            batches = iter(self.strategy.experimental_distribute_dataset(make_batches(step)))
            run_steps = self._make_run_steps(optimizer, gradient_accumulation_steps)
            report = _Report(self.output_dir, step, num_train_steps, batch_size)
            steps_per_loop = 1  # until the speed is measured
            while step < num_train_steps:
                next_save = step + save_checkpoints_steps - step % save_checkpoints_steps
                next_save = min(next_save, num_train_steps)
                steps = min(steps_per_loop, iterations_per_loop, next_save - step)
                start = time.monotonic()
                sums = run_steps(batches, tf.constant(steps))
                sums = {name: float(value) for name, value in sums.items()}
                seconds_per_step = (time.monotonic() - start) / steps
                steps_per_loop = max(1, int(SECONDS_PER_LOOP / max(seconds_per_step, 1e-6)))
                step += steps
                rate = float(optimizer.learning_rate(step - 1))
                report.add(step, steps, sums, rate, final=step == num_train_steps)
                self._check_finite(sums, step, steps)
                if step == next_save or stopper.signal:
                    checkpointing.save(self.output_dir, state)
                    self.checkpoint = checkpointing.latest(self.output_dir)
                if stopper.signal and step < num_train_steps:
                    report.close()
                    stopper.stop(step)
            report.close()

    def _check_finite(self, sums, step, steps):
        """Raises UserError if a loss or the gradients of the last `steps` steps are no numbers."""
        for name, value in sums.items():
            if not np.isfinite(value):
                raise UserError(
                    f"{name} is {value} at step {step} or up to {steps - 1} before; the last good "
                    f"checkpoint is {self.checkpoint}; a lower --learning_rate may help"
                )

    def _make_run_steps(self, optimizer, accumulation):
        """Makes the function that runs n steps on the devices and adds up what they report."""
        strategy, task, model = self.strategy, self.task, self.model

        def gradients_of(batch, weights, replica):
            """The batch's share of gradients and losses, on one replica."""
            salt = modeling.dropout_salt(replica.replica_id_in_sync_group)
            with salt, tf.GradientTape() as tape:
                losses = task.losses(model(batch, training=True), batch, weights)
                losses["loss"] = tf.add_n(list(losses.values()))
            gradients = tape.gradient(losses["loss"], optimizer.weights)
            # Embeddings give sparse gradients with repeated rows; made dense, they are added up.
            # What the loss does not depend on (a tagger's pooler) has none, and stays as it is.
            return {
                name: tf.convert_to_tensor(gradient)
                for name, gradient in gradients.items()
                if gradient is not None
            }, losses

        def train_step(batch):
            replica = tf.distribute.get_replica_context()
            weights = replica.all_reduce(tf.distribute.ReduceOp.SUM, task.loss_weights(batch))
            if accumulation == 1:
                gradients, losses = gradients_of(batch, weights, replica)
            else:
                parts = {
                    name: tf.reshape(value, (accumulation, -1, *value.shape[1:]))
                    for name, value in batch.items()
                }
                part = {name: value[0] for name, value in parts.items()}
                gradients, losses = gradients_of(part, weights, replica)
                for i in tf.range(1, accumulation):
                    part = {name: value[i] for name, value in parts.items()}
                    more, part_losses = gradients_of(part, weights, replica)
                    gradients = {name: gradients[name] + more[name] for name in gradients}
                    losses = {name: losses[name] + part_losses[name] for name in losses}
            gradients, losses = replica.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, losses))
            losses["gradient_norm"] = optimizer.apply(gradients)
            return losses

        @tf.function
        def run_steps(batches, steps):
            sums = dict.fromkeys((*task.loss_names, "loss", "gradient_norm"), tf.constant(0.0))
            for _ in tf.range(steps):
                values = strategy.run(train_step, args=(next(batches),))
                # Every replica has the same values after the reduction: take the first's.
                values = {
                    name: strategy.experimental_local_results(value)[0]
                    for name, value in values.items()
                }
                sums = {name: sums[name] + values[name] for name in sums}
            return sums

        return run_steps

    def predict(self, batches, what, total=None):
        """Yields the task's predictions of each batch, in order, as dicts of numpy arrays.

        Args:
          batches: dataset of global batches with `is_real_example` (B,), 0 for rows that only fill
            up the last batch; these are left out.
          what: the job, for the progress line.
          total: number of examples, if known.
        """
        strategy, task, model = self.strategy, self.task, self.model

        def predict_step(batch):
            predictions = task.predictions(model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        @tf.function
        def run_step(batch):
            return strategy.run(predict_step, args=(batch,))

        ticker = console.Ticker(what, "examples", total=total)
        for batch in strategy.experimental_distribute_dataset(batches):
            values = {
                name: np.concatenate([v.numpy() for v in strategy.experimental_local_results(x)])
                for name, x in run_step(batch).items()
            }
            real = values.pop("is_real_example").astype(bool)
            ticker.add(int(real.sum()))
            yield {name: value[real] for name, value in values.items()}
        ticker.done()

    def evaluate(self, batches, total=None):
        """Returns the task's metrics over all of `batches`, a dict, and `global_step`."""
        parts = list(self.predict(batches, "evaluating", total))
        if not parts:
            raise UserError("evaluation: there is not a single example")
        everything = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        results = {**self.task.metrics(everything), "global_step": self.step}
        writer = tf.summary.create_file_writer(os.path.join(self.output_dir, "eval"))
        with writer.as_default(step=self.step):
            for name, value in results.items():
                tf.summary.scalar(name, value)
        writer.close()
        return results


class _Report:
    """Progress lines and TensorBoard curves: means since the line before."""

    def __init__(self, output_dir, step, num_train_steps, batch_size):
        self.num_train_steps, self.batch_size = num_train_steps, batch_size
        self.writer = tf.summary.create_file_writer(output_dir)
        self.last_step, self.last_time = step, time.monotonic()
        self.sums = {}
        self.steps_per_second = None

    def add(self, step, steps, sums, rate, final=False):
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        now = time.monotonic()
        first = self.last_step + steps == step and self.steps_per_second is None
        if not (first or final or now - self.last_time >= SECONDS_PER_REPORT):
            return
        done, seconds = step - self.last_step, max(now - self.last_time, 1e-9)
        means = {name: value / done for name, value in self.sums.items()}
        self.steps_per_second = done / seconds
        examples = self.batch_size * self.steps_per_second
        losses = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        left = console.duration((self.num_train_steps - step) / self.steps_per_second)
        # The first step holds the compilation; its speed would mislead.
        speed = "compiled" if first else f"{examples:.1f} examples/s  {left} left"
        console.info(
            "step %d/%d  %s  learning_rate %.3g  %s",
            step, self.num_train_steps, losses, rate, speed,
        )  # fmt: skip
        with self.writer.as_default(step=step):
            for name, value in means.items():
                tf.summary.scalar(name, value)
            tf.summary.scalar("learning_rate", rate)
            if not first:
                tf.summary.scalar("examples_per_second", examples)
        self.sums, self.last_step, self.last_time = {}, step, now

    def close(self):
        self.writer.close()
