"""The one training loop, on any strategy."""

from bert_tf.training import guard
from bert_tf.training.best import check_metric, log_best_checkpoint
from bert_tf.training.checkpointing import latest
from bert_tf.training.devices import Devices, find_devices
from bert_tf.training.distillation import Teacher
from bert_tf.training.options import Options
from bert_tf.training.step import TrainStep
from bert_tf.training.strategy import (
    length_multiple,
    make_strategy,
    on_all_replicas,
    per_replica,
    set_seed,
    use_xla,
)
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import Workers

__all__ = [
    "Devices",
    "Options",
    "Teacher",
    "TrainStep",
    "Trainer",
    "Workers",
    "check_metric",
    "find_devices",
    "guard",
    "latest",
    "length_multiple",
    "log_best_checkpoint",
    "make_strategy",
    "on_all_replicas",
    "per_replica",
    "set_seed",
    "use_xla",
]
