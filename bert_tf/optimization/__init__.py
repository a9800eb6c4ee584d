"""Optimizers, learning-rate schedules, and learning rates by layer."""

import functools

from bert_tf import console
from bert_tf.optimization.layer_decay import rate_factors, trainable_weights
from bert_tf.optimization.optimizers import LAMB, AdamWeightDecay
from bert_tf.optimization.schedule import LinearWarmupDecay

# The values of --optimizer.
OPTIMIZERS = {
    "bert_adam": AdamWeightDecay,
    "adamw": functools.partial(AdamWeightDecay, bias_correction=True),
    "lamb": LAMB,
}

# Functions from (peak rate, number of steps, number of warm-up steps) to a Keras schedule. New
# schedules, such as `keras.optimizers.schedules.CosineDecay`, go here. To offer them as a flag, add
# an option to `configs.OptimizerConfig` whose value `make_optimizer` looks up here.
SCHEDULES = {"linear": LinearWarmupDecay}


def make_optimizer(config, num_train_steps):
    """Return the optimizer of a `configs.OptimizerConfig`, not yet built.

    Its learning rate reaches 0 at `num_train_steps`. If the config has no `num_warmup_steps`, the
    warm-up takes its `warmup_proportion` of the steps.

    Raises:
      UserError: if a value of the config is not valid.
    """
    config.validate()
    num_warmup_steps = config.num_warmup_steps
    if num_warmup_steps is None:
        num_warmup_steps = int(num_train_steps * config.warmup_proportion)
    if num_warmup_steps >= num_train_steps:
        console.warning(
            "%d warm-up steps are not less than %d training steps: the learning rate never "
            "reaches `learning_rate`",
            num_warmup_steps, num_train_steps,
        )  # fmt: skip
    rate = SCHEDULES["linear"](config.learning_rate, num_train_steps, num_warmup_steps)
    return OPTIMIZERS[config.optimizer](rate, layer_decay=config.layer_decay)


__all__ = [
    "LAMB",
    "OPTIMIZERS",
    "SCHEDULES",
    "AdamWeightDecay",
    "LinearWarmupDecay",
    "make_optimizer",
    "rate_factors",
    "trainable_weights",
]
