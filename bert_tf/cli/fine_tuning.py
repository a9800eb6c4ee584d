"""Flags shared by the fine-tuning scripts, and their conversion to a `FineTuneConfig`."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, command_line, define_options, from_flags
from bert_tf.configs.train import FineTuneConfig

flags.disclaim_key_flags()


def define_flags(config_class):
    define_options(FineTuneConfig(), skip=("num_warmup_steps",))
    define_options(config_class())
    FLAGS.set_default("do_lower_case", config_class.do_lower_case)
    flags.mark_flag_as_required("output_dir")


def fine_tune(name):
    from bert_tf.tasks.registry import TASKS  # imports TensorFlow

    spec = TASKS[name]
    config = from_flags(FineTuneConfig(task=spec.config_class()))
    bert_tf.training.fine_tune(spec, config, command_line())
