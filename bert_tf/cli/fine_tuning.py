"""The flags that the fine-tuning scripts share, and their conversion to a `FineTuneConfig`."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import define_options, from_flags
from bert_tf.configs.train import FineTuneConfig

flags.disclaim_key_flags()

_DISTILLATION = ("teacher_dir", "teacher_weight", "teacher_temperature")


def define_flags(options_class, can_distill=False):
    """Define the flags of a script for the task of a `TaskOptions` class."""
    define_options(options_class)
    define_options(FineTuneConfig, skip=("task",) if can_distill else ("task", *_DISTILLATION))
    flags.mark_flag_as_required("output_dir")


def fine_tune(task_name):
    """Fine-tune a task, a key of `tasks.TASKS`, with the options of the flags."""
    spec = bert_tf.tasks.TASKS[task_name]
    config = from_flags(FineTuneConfig, task=from_flags(spec.options_class))
    bert_tf.training.fine_tune(spec, config)
