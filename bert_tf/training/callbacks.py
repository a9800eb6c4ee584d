"""Keras callbacks during `fit`, and the calls of callbacks by the training loop."""

import bisect

import keras
import numpy as np

from bert_tf.errors import not_finite


class CheckLoss(keras.callbacks.Callback):
    """Stops training with a UserError when the loss is not finite."""

    async_safe = True  # lets Keras run without waiting for each step

    def __init__(self):
        super().__init__()
        self._num_steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self._num_steps += 1
        loss = float((logs or {}).get("loss", 0.0))  # the mean over the epoch so far
        if not np.isfinite(loss):
            hint = "; load the model again, because its weights are damaged"
            raise not_finite("loss", loss, self._num_steps, hint)


class AddScores(keras.callbacks.Callback):
    """Adds scores to the logs of each epoch. Must come before callbacks that read them."""

    def __init__(self, compute):
        """Create the callback from a function that returns a dict; names get the prefix "val_"."""
        super().__init__()
        self._compute = compute

    def on_epoch_end(self, epoch, logs=None):
        for name, value in self._compute().items():
            logs.setdefault(f"val_{name}", value)  # Keras' value if `compile` set the loss


class Epochs:
    """Calls Keras callbacks with the logs of each epoch of the loop, as `keras.Model.fit` does."""

    def __init__(self, model, callbacks, ends, eval_data=None):
        """`ends` has the step at the end of each epoch; `eval_data` is evaluated there."""
        self.callbacks = keras.callbacks.CallbackList(
            callbacks, add_history=True, model=model, epochs=len(ends), steps=ends[0]
        )
        self._model, self._ends, self._eval_data = model, ends, eval_data
        self._sums, self._num_steps, self._epoch = {}, 0, 0

    @property
    def end(self):
        return self._ends[self._epoch]

    @property
    def must_stop(self):
        return self._model.stop_training

    def start(self, step):
        self._epoch = bisect.bisect_right(self._ends, step)
        self._step = step
        self.callbacks.on_train_begin()
        self._model.stop_training = False
        if self._epoch < len(self._ends):
            self.callbacks.on_epoch_begin(self._epoch)

    def add(self, sums, step):
        """Add the sums of results over the steps up to `step`; return whether an epoch ends."""
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._step, self._num_steps = step, self._num_steps + step - self._step
        return step == self.end

    def finish(self, evaluate):
        """Call the callbacks; `evaluate` is `Loop.evaluate`."""
        logs = {name: value / self._num_steps for name, value in self._sums.items()}
        if self._eval_data:
            scores = evaluate(self._eval_data)
            names = {name: name.removeprefix("eval_") for name in scores if name != "global_step"}
            logs |= {f"val_{short}": float(scores[name]) for name, short in names.items()}
        self.callbacks.on_epoch_end(self._epoch, logs)
        self._sums, self._num_steps, self._epoch = {}, 0, self._epoch + 1
        if self._epoch < len(self._ends) and not self.must_stop:
            self.callbacks.on_epoch_begin(self._epoch)
