"""Optimizers, their learning-rate schedule, and what they leave out or slow down by layer."""

import functools

from bert_tf.optimization.adam import AdamWeightDecay
from bert_tf.optimization.lamb import Lamb
from bert_tf.optimization.layer_decay import rate_factors, trained
from bert_tf.optimization.loss_scale import LossScale
from bert_tf.optimization.schedules import linear_warmup_decay

# By the names of --optimizer.
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
    "trained",
]
