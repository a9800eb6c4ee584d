"""The flags of the scripts that fine-tune, and how these become a `training.FineTuneConfig`."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import (
    define_device_flags,
    define_model_flags,
    define_tokenizer_flags,
    define_training_flags,
    from_flags,
)
from bert_tf.errors import UserError

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_fine_tuning_flags(max_seq_length, max_seq_length_help):
    """Define the flags that all fine-tuning scripts share.

    Args:
      max_seq_length: the default of that flag.
      max_seq_length_help: its help.
    """
    define_model_flags()
    define_tokenizer_flags()
    define_training_flags()
    define_device_flags()
    flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
    flags.mark_flag_as_required("output_dir")
    flags.DEFINE_integer("max_seq_length", max_seq_length, max_seq_length_help)
    flags.DEFINE_bool("do_train", False, "Whether to train.")
    flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict.")
    flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for prediction.", lower_bound=1)
    flags.DEFINE_float("num_train_epochs", 3.0, "Number of passes over the training set.", 0.0)
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps to warm up in.", 0.0, 1.0)
    flags.DEFINE_integer(
        "num_seeds",
        1,
        "Number of runs, with seed, seed + 1, ..., each in a folder seed_N of output_dir; mean and "
        "spread go to eval_seeds.tsv. (bert_tf)",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "pad_to_max_length",
        False,
        "Pad every batch to max_seq_length, as on a TPU, instead of to its longest sequence. "
        "(bert_tf)",
    )


def define_tfds_flags(splits_help):
    """Define the flags of a data set of tensorflow-datasets."""
    flags.DEFINE_string("tfds_name", None, "Data set of tensorflow-datasets. (bert_tf)")
    flags.DEFINE_string(
        "tfds_data_dir", None, "Folder of prepared data sets of tensorflow-datasets. (bert_tf)"
    )
    flags.DEFINE_list("tfds_splits", None, f"{splits_help} (bert_tf)")


def define_distillation_flags():
    """Define the flags of learning from a teacher."""
    flags.DEFINE_string(
        "teacher_dir",
        None,
        "output_dir of a fine-tuned model to learn from; its logits replace the labels, which must "
        "be the same, as must task_type and numeric_columns. (bert_tf)",
    )
    flags.DEFINE_float(
        "teacher_weight",
        1.0,
        "Share of the loss on the teacher's logits; the labels have the rest. (bert_tf)",
        0.0,
        1.0,
    )
    flags.DEFINE_float(
        "teacher_temperature",
        1.0,
        "Divisor of the logits of both models before they are compared. (bert_tf)",
        lower_bound=0.01,
    )


def fine_tune_config(spec):
    """Return the `training.FineTuneConfig` of the flags.

    Args:
      spec: the `tasks.TaskSpec`, whose options are made from the flags named like them.
    """
    training = bert_tf.training
    distillation = None
    if "teacher_dir" in FLAGS:
        if FLAGS.teacher_dir:
            distillation = bert_tf.tasks.classification.DistillationConfig(
                FLAGS.teacher_weight, FLAGS.teacher_temperature
            )
        else:
            for name in ("teacher_weight", "teacher_temperature"):
                if FLAGS[name].present:
                    raise UserError(f"--{name} requires --teacher_dir")
    return from_flags(
        training.FineTuneConfig,
        task=from_flags(spec.options_class),
        model=from_flags(training.ModelConfig),
        train=from_flags(training.TrainConfig),
        optimizer=from_flags(training.OptimizerConfig),
        device=from_flags(training.DeviceConfig),
        distillation=distillation,
    )


def fine_tune(task_name):
    """Fine-tune as the flags say.

    Args:
      task_name: a key of `tasks.TASKS`.
    """
    spec = bert_tf.tasks.TASKS[task_name]
    bert_tf.training.fine_tune(spec, fine_tune_config(spec))
