"""Optimizers, the learning-rate schedule, learning rates by layer and loss scaling."""

import functools

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

__all__ = [
    "OPTIMIZERS",
    "AdamWeightDecay",
    "Lamb",
    "LossScale",
    "linear_warmup_decay",
    "rate_factors",
    "trainable_weights",
]

# Names of version 0.1.
__getattr__ = deprecated_names(__name__, {"trained": "trainable_weights"})
