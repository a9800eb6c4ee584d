"""The one training loop, on any strategy."""

from bert_tf.training import guard
from bert_tf.training.checkpointing import latest
from bert_tf.training.options import Options
from bert_tf.training.step import TrainStep
from bert_tf.training.strategy import make_strategy, per_replica, set_seed, use_xla
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import Workers

__all__ = [
    "Options",
    "TrainStep",
    "Trainer",
    "Workers",
    "guard",
    "latest",
    "make_strategy",
    "per_replica",
    "set_seed",
    "use_xla",
]
