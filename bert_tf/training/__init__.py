"""The task interface, `fine_tune`, `pretrain`, and the training loop that they share."""

from bert_tf.training.checkpointing import latest
from bert_tf.training.fine_tuning import fine_tune
from bert_tf.training.loop import PreemptionHandler, exclusive_directory
from bert_tf.training.pretraining import pretrain
from bert_tf.training.step import TrainStep
from bert_tf.training.strategy import make_strategy, set_seed
from bert_tf.training.task import Task, TaskData
from bert_tf.training.trainer import Trainer

__all__ = [
    "PreemptionHandler",
    "Task",
    "TaskData",
    "TrainStep",
    "Trainer",
    "exclusive_directory",
    "fine_tune",
    "latest",
    "make_strategy",
    "pretrain",
    "set_seed",
]
