"""Optimizers, learning-rate schedules, and learning rates by layer."""

from bert_tf.optimization.create import OPTIMIZERS, LinearWarmupDecay, make_optimizer
from bert_tf.optimization.optimizers import LAMB, AdamWeightDecay, rate_factors
