"""The release's learning-rate schedule."""

import keras
from keras import ops

from bert_tf.errors import UserError


@keras.saving.register_keras_serializable("bert_tf")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then linear decay to 0 (BERT paper, appendix A.2; release's optimizer).

    The decay runs over all steps, and the warm-up replaces its beginning. The first step of a
    warm-up has a rate of 0, and the rate drops a little at its end.

    >>> rate = bert_tf.LinearWarmupDecay(1.0, num_train_steps=10, num_warmup_steps=4)
    >>> [round(float(rate(step)), 2) for step in (0, 2, 3, 4, 5, 10)]
    [0.0, 0.5, 0.75, 0.6, 0.5, 0.0]
    """

    def __init__(self, learning_rate: float, num_train_steps: int, num_warmup_steps: int = 0):
        """Store the peak rate, the step where the decay reaches 0, and the length of the warm-up.

        Raises UserError if there are no steps.
        """
        if num_train_steps < 1:
            raise UserError(f"`num_train_steps={num_train_steps}`: expected at least 1")
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        """Return the rate of a step, counted from 0, as a float32 scalar."""
        step = ops.cast(step, "float32")
        decayed = 1.0 - ops.minimum(step / float(self.num_train_steps), 1.0)
        if not self.num_warmup_steps:
            return self.learning_rate * decayed
        warm = step / float(self.num_warmup_steps)
        is_warming_up = step < float(self.num_warmup_steps)
        return self.learning_rate * ops.where(is_warming_up, warm, decayed)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
