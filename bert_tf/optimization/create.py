"""The optimizer of a run: learning rate, schedule, weight decay and clipping."""

import functools

import keras
from keras import ops

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.optimization.optimizers import LAMB, AdamWeightDecay

OPTIMIZERS = {
    "bert_adam": AdamWeightDecay,
    "adamw": functools.partial(AdamWeightDecay, bias_correction=True),
    "lamb": LAMB,
}


def make_optimizer(config, num_train_steps):
    """Return the optimizer of a valid `OptimizerConfig`, as the release's `create_optimizer` does.

    The learning rate rises from 0 during `num_warmup_steps` or, if it is not given, the
    `warmup_proportion` of the steps, and falls to 0 at `num_train_steps`.
    """
    num_warmup_steps = config.num_warmup_steps
    if num_warmup_steps is None:
        num_warmup_steps = int(num_train_steps * config.warmup_proportion)
    if num_warmup_steps >= num_train_steps:
        console.warning(
            f"found {num_warmup_steps} warm-up steps, expected fewer than the {num_train_steps} "
            "training steps: the learning rate never reaches `learning_rate`"
        )
    schedule = LinearWarmupDecay(config.learning_rate, num_train_steps, num_warmup_steps)
    return OPTIMIZERS[config.optimizer](schedule, layer_decay=config.layer_decay)


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
        names = ("learning_rate", "num_train_steps", "num_warmup_steps")
        return {name: getattr(self, name) for name in names}
