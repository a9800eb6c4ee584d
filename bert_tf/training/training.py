"""`Training`: the steps of a run, with progress, checkpoints and evaluation on the host."""

import contextlib
import dataclasses
import json
import os
import time

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, abbreviate, not_finite
from bert_tf.io import files
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.optimization import AdamWeightDecay
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import BestCheckpoint
from bert_tf.training.progress import Report
from bert_tf.training.step import LossScale, make_run_steps, make_train_step
from bert_tf.training.strategy import use_xla

# Approximate time between returns to the host, which reports, saves and evaluates.
SECONDS_PER_LOOP = 2.0


class Training:
    """One call of `Loop.train`: the optimizer, and what is known about the run so far.

    The step and the newest checkpoint are those of the `Loop`. All else ends with the training.
    """

    def __init__(
        self, loop, data, optimizer, num_train_steps, config, eval_data, epochs, preemption
    ):
        """Build the optimizer and the step; see `Loop.train` for the arguments.

        `preemption` is the active `PreemptionHandler`.
        """
        self.loop, self.data, self.num_train_steps = loop, data, num_train_steps
        self.eval_data, self.epochs, self.preemption = eval_data, epochs, preemption
        self.workers, self.folder = loop.workers, loop.output_dir
        _check_optimizer(optimizer)
        if config.xla is not None and isinstance(loop.strategy, tf.distribute.TPUStrategy):
            console.warning("`xla` has no effect on a TPU, which always compiles with it")
        xla = use_xla(config.xla, loop.strategy, num_train_steps)
        self.config, self.optimizer = dataclasses.replace(config, xla=xla), optimizer
        model = loop.model
        model.skip_padding &= can_skip_padding(loop.strategy, xla)
        if config.num_frozen_layers:
            model.freeze(config.num_frozen_layers)
        with loop.strategy.scope():
            optimizer.build(checkpointing.weights(model, trainable_only=True))
            loss_scale = LossScale.of(model)
            self.train_step = make_train_step(loop.task, optimizer, self.config, loss_scale)
        # All variables of a checkpoint, and the settings that are saved with them.
        self.state = checkpointing.run_state(model, optimizer, loss_scale)
        self.settings = self._settings()
        self.best = config.best_metric and BestCheckpoint(self.folder, config.best_metric)

    def _settings(self):
        """Return the settings that determine the steps, to be compared when the run resumes."""
        data, optimizer = self.data, self.optimizer
        settings = {
            # The examples of each step.
            "train_batch_size": data.batch_size,
            "seed": data.seed,
            "bucket_by_length": int(data.bucket_by_length),
            "num_input_streams": data.num_input_streams,
            "masked_lm_prob": data.masking and data.masking.identity[0],
            # The update.
            "losses": self.loop.task.key,
            "num_frozen_layers": self.config.num_frozen_layers,
            "dtype": self.loop.model.compute_type,
            "optimizer": {"class_name": type(optimizer).__name__, **optimizer.hyperparameters},
            "learning_rate": optimizer.rate_config,
        }
        if data.identity:
            # The number of files, their bytes and a digest of their names and sizes.
            settings["input"] = data.identity
        # The round trip converts NumPy numbers and tuples, as in a restored checkpoint.
        return json.loads(json.dumps(settings, default=float))

    def run(self):
        """Resume from the newest checkpoint, and train."""
        self._resume()
        is_evaluated = self._is_evaluated()
        if self.epochs:
            if not self.loop.step:
                self._save()  # the weights of the model, which may be new
            self.epochs.start(self.loop.step, is_evaluated)
        if not is_evaluated:  # the run was stopped before or during this evaluation
            self._evaluate()
        if self._is_done:
            early = " and was stopped early" if self._is_stopped_early else ""
            console.info("training: nothing to do, the run is at step %d%s", self.loop.step, early)
            # Old checkpoints remain if the process was killed in its last `_save`.
            self.workers.chief_first(lambda: checkpointing.remove_old(self.folder, self.loop.step))
        else:
            self._train()
        if self.epochs:
            self.epochs.callbacks.on_train_end()

    def _resume(self):
        """Load the newest checkpoint, and compare the settings of this run with it."""
        newest = checkpointing.restore_latest(self.folder, self.state)
        if newest:
            self.loop.checkpoint = newest
            checkpointing.check_training_settings(newest, self.settings)
        self.loop.step = step = int(self.optimizer.step.numpy())
        if self.best:
            self.best.rewind(step)
            # A finished run keeps its evaluations, because only its last weights can be evaluated.
            if step < self.num_train_steps or not self.best.has_seen(step):
                self.best.use_data(self.eval_data.identity)
        files_key = float(self.data.identity[2] % 2**40) if self.data.identity else 0.0
        mean_step, mean_key = self.workers.mean(step, files_key)
        if mean_key != files_key:
            raise UserError("`input_file`: the workers see different files")
        if mean_step != step:
            raise UserError(
                f"`output_dir`: the newest checkpoint in {self.folder} is from step {step} here, "
                "but from a different step on other workers; all must see the same folder"
            )

    def _train(self):
        """Train until the last step, early stopping or a signal."""
        config, epochs, last_step = self.config, self.epochs, self.num_train_steps
        step, size = self.loop.step, self.data.batch_size
        console.info("training: step %d to %d, %d examples each", step, last_step, size)
        report = Report(self.folder, step, last_step, size, self.workers.is_chief)
        with contextlib.closing(report.writer):
            for step, sums, first_bad in self._host_loops():
                self.loop.step = step
                must_stop = self._must_stop()
                rate = float(self.optimizer.learning_rate_at(step - 1))
                report.add(step, sums, rate, must_stop or step == last_step)
                self._check_finite(sums, first_bad)
                if epochs:
                    epochs.add(sums, step)
                must_save = self._is_due(config.save_checkpoints_steps)
                # Save first: an evaluation may take longer than the notice before a preemption.
                if must_save or self._must_evaluate or self._ends_epoch or must_stop:
                    self._save()
                with report.paused():
                    self._evaluate(must_stop)
                if self._is_stopped_early:
                    console.info("training: stopped early at step %d", step)

    def _host_loops(self):
        """Run all steps; after each return to the host, yield the step, sums of the results since.

        The third value is the first step whose results are not finite, or -1.
        """
        data, config, strategy, step = self.data, self.config, self.loop.strategy, self.loop.step
        if step:
            # The chief counts the records if necessary; the others read its file.
            cache = os.path.join(self.folder, "records" + files.RECORD_COUNTS)
            self.workers.chief_first(lambda: data.load_counts(cache))
            data.load_counts(cache)
        run_steps = make_run_steps(self.train_step, self.loop.task, strategy)
        first_step = step
        batches = iter(
            strategy.distribute_datasets_from_function(
                lambda context: data.batches(first_step, context)
            )
        )
        max_steps = 1  # until the speed is measured
        while not self._is_done:
            periods = filter(None, (config.save_checkpoints_steps, config.eval_steps))
            stops = [self.num_train_steps, *(step + x - step % x for x in periods)]
            if self.epochs:
                stops.append(self.epochs.end)
            steps = min(max_steps, config.iterations_per_loop, min(stops) - step)
            start = time.monotonic()
            sums, first_bad = run_steps(batches, tf.constant(steps))
            sums = {name: float(value) for name, value in sums.items()}
            (seconds,) = self.workers.mean((time.monotonic() - start) / steps)
            max_steps = max(1, int(SECONDS_PER_LOOP / max(seconds, 1e-6)))
            first_bad = step + int(first_bad) + 1 if first_bad >= 0 else -1
            step += steps
            yield step, sums, first_bad

    def _must_stop(self):
        """Return whether any worker received a signal, so that all stop at the same step."""
        return self.workers.mean(float(bool(self.preemption.signal)))[0] > 0

    @property
    def _is_stopped_early(self):
        patience = self.config.early_stopping_patience
        return bool(patience and self.best) and len(self.best.since) >= patience

    @property
    def _is_done(self):
        must_stop = self.epochs and self.epochs.must_stop
        return self.loop.step >= self.num_train_steps or must_stop or self._is_stopped_early

    def _is_due(self, every):
        step = self.loop.step
        return bool(every and step) and (step % every == 0 or step == self.num_train_steps)

    def _check_finite(self, sums, first_bad):
        if first_bad < 0:
            return
        name, value = next((n, v) for n, v in sums.items() if not np.isfinite(v))
        paths = abbreviate(self.data.files_at_step(first_bad - 1))
        newest = self.loop.checkpoint
        last = f"the last checkpoint is {newest}" if newest else "there is no checkpoint yet"
        raise not_finite(name, value, first_bad, f", with a batch from {paths}; {last}")

    def _save(self):
        self.workers.chief_first(lambda: checkpointing.save(self.folder, self.state, self.settings))
        self.loop.checkpoint = checkpointing.latest(self.folder)

    @property
    def _ends_epoch(self):
        return bool(self.epochs) and self.epochs.ends_at(self.loop.step)

    @property
    def _must_evaluate(self):
        return self._is_due(self.config.eval_steps) or (self._ends_epoch and self.eval_data)

    def _is_evaluated(self):
        """Return whether no evaluation is due at this step, or it is complete."""
        if not self._must_evaluate:
            return True
        if self.best and self._is_due(self.config.eval_steps):
            return self.best.has_seen(self.loop.step)
        return self.workers.mean(float(self.loop.has_curves()))[0] == 1

    def _evaluate(self, must_stop=False):
        """Evaluate and call the callbacks at the end of an epoch, if due; stop after a signal."""
        step, results = self.loop.step, {}

        def stop_if_asked():
            # Several workers evaluate together, so no worker may stop alone.
            if self.preemption.signal and not self.workers.is_multi_worker:
                self.preemption.stop(step)

        if self._must_evaluate:
            if must_stop:
                self.preemption.stop(step)  # the resumed run evaluates
            results = self.loop.evaluate(self.eval_data, on_batch=stop_if_asked)
        if self._is_due(self.config.eval_steps):
            shown = "  ".join(f"{n} {v:.4f}" for n, v in results.items() if n != "global_step")
            console.info("step %d/%d  evaluation: %s", step, self.num_train_steps, shown)
            if self.best:
                weights = checkpointing.weights(self.loop.model)
                weights["global_step"] = self.optimizer.step
                self.best.update(results, weights, self.workers.is_chief)
        if self._ends_epoch:
            self.epochs.finish(results)
        if must_stop or (results and self._must_stop()):
            self.preemption.stop(step)


def _check_optimizer(optimizer):
    """Raise UserError if the loop cannot use an optimizer."""
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
