"""Optimizers, the learning-rate schedule, learning rates by layer and loss scaling."""

import functools

from bert_tf import console
from bert_tf.deprecation import deprecated_names
from bert_tf.optimization.loss_scale import LossScale
from bert_tf.optimization.optimizers import (
    AdamWeightDecay,
    Lamb,
    linear_warmup_decay,
    rate_factors,
    trainable_weights,
)

# The values of --optimizer.
OPTIMIZERS = {
    "bert_adam": AdamWeightDecay,
    "adamw": functools.partial(AdamWeightDecay, bias_correction=True),
    "lamb": Lamb,
}


def make_optimizer(config, num_train_steps, num_warmup_steps=None):
    """Return the optimizer of an `options.OptimizerConfig`, not yet built.

    Its learning rate reaches 0 at `num_train_steps`. If `num_warmup_steps` is None, the warm-up
    takes `warmup_proportion` of the steps.
    """
    if num_warmup_steps is None:
        num_warmup_steps = int(num_train_steps * config.warmup_proportion)
    if num_warmup_steps >= num_train_steps:
        console.warning(
            "%d warm-up steps are not less than %d training steps: the learning rate never "
            "reaches `learning_rate`",
            num_warmup_steps, num_train_steps,
        )  # fmt: skip
    rate = linear_warmup_decay(config.learning_rate, num_train_steps, num_warmup_steps)
    return OPTIMIZERS[config.optimizer](rate, layer_decay=config.layer_decay)


__all__ = [
    "OPTIMIZERS",
    "AdamWeightDecay",
    "Lamb",
    "LossScale",
    "linear_warmup_decay",
    "make_optimizer",
    "rate_factors",
    "trainable_weights",
]

# Names of version 0.1.
__getattr__ = deprecated_names(__name__, {"trained": "trainable_weights"})
