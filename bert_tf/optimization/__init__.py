"""Optimizers, learning-rate schedules, and learning rates by layer."""

import functools

from bert_tf import console
from bert_tf.optimization.layer_decay import rate_factors, trainable_weights
from bert_tf.optimization.optimizers import LAMB, AdamWeightDecay
from bert_tf.optimization.schedule import LinearWarmupDecay

OPTIMIZERS = {
    "bert_adam": AdamWeightDecay,
    "adamw": functools.partial(AdamWeightDecay, bias_correction=True),
    "lamb": LAMB,
}


def make_optimizer(config, num_train_steps):
    """Return an unbuilt optimizer for an `OptimizerConfig`; raise UserError if it is invalid.

    The learning rate reaches 0 at `num_train_steps`. If the config has no `num_warmup_steps`, the
    warm-up is the `warmup_proportion` of the steps.
    """
    config.validate()
    num_warmup_steps = config.num_warmup_steps
    if num_warmup_steps is None:
        num_warmup_steps = int(num_train_steps * config.warmup_proportion)
    if num_warmup_steps >= num_train_steps:
        console.warning(
            "found %d warm-up steps, expected fewer than the %d training steps: the learning rate "
            "never reaches `learning_rate`",
            num_warmup_steps, num_train_steps,
        )  # fmt: skip
    rate = LinearWarmupDecay(config.learning_rate, num_train_steps, num_warmup_steps)
    return OPTIMIZERS[config.optimizer](rate, layer_decay=config.layer_decay)


__all__ = [
    "LAMB",
    "OPTIMIZERS",
    "AdamWeightDecay",
    "LinearWarmupDecay",
    "make_optimizer",
    "rate_factors",
    "trainable_weights",
]
