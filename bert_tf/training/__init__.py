"""The task interface, `fine_tune`, `pretrain`, and the training loop that they share."""

from bert_tf.training import metrics, results
from bert_tf.training.checkpointing import BestCheckpoint, check_metric, latest, log_best_checkpoint
from bert_tf.training.fine_tuning import fine_tune
from bert_tf.training.loop import PreemptionHandler, TrainLoop, exclusive_directory
from bert_tf.training.pretraining import pretrain
from bert_tf.training.pretraining_task import PretrainingTask
from bert_tf.training.step import LossScale, TrainStep
from bert_tf.training.strategy import (
    Workers,
    make_strategy,
    model_strategy,
    on_all_replicas,
    per_replica,
    set_seed,
    use_xla,
)
from bert_tf.training.task import Task, TaskData
from bert_tf.training.trainer import Trainer

__all__ = [
    "BestCheckpoint",
    "LossScale",
    "PreemptionHandler",
    "PretrainingTask",
    "Task",
    "TaskData",
    "TrainLoop",
    "TrainStep",
    "Trainer",
    "Workers",
    "check_metric",
    "exclusive_directory",
    "fine_tune",
    "latest",
    "log_best_checkpoint",
    "make_strategy",
    "metrics",
    "model_strategy",
    "on_all_replicas",
    "per_replica",
    "pretrain",
    "results",
    "set_seed",
    "use_xla",
]
