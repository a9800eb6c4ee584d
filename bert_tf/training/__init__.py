"""The one training loop, on any strategy."""

from bert_tf.training import guard
from bert_tf.training.checkpointing import latest
from bert_tf.training.loop import Trainer
from bert_tf.training.strategy import make_strategy, per_replica, set_seed

__all__ = ["Trainer", "guard", "latest", "make_strategy", "per_replica", "set_seed"]
