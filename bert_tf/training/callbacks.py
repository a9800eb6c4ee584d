"""Keras callbacks of `fit`, and the calls of callbacks in the epochs of the loop."""

import collections

import keras
import numpy as np

from bert_tf.errors import not_finite


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


def add_scores(compute, freq):
    """Return a callback that adds scores to the logs of epochs, for the callbacks after it.

    `compute` is a function that returns a dict, whose names get the prefix "val_"; `freq` is Keras'
    `validation_freq`: a number of epochs, or a list of epochs from 1.
    """

    def on_epoch_end(epoch, logs):
        number = epoch + 1
        if number % freq == 0 if isinstance(freq, int) else number in freq:
            for name, value in compute().items():
                logs.setdefault(f"val_{name}", value)  # Keras' value if `compile` set the loss

    return keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end)


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
