"""Flags shared by the scripts for `bert_tf.pipelines`, and their conversion to arguments."""

import dataclasses

from absl import flags

import bert_tf
from bert_tf.cli import usage
from bert_tf.cli.flags import define_options, from_flags
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.train import DeviceConfig, TrainConfig

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_pipeline_flags():
    define_options(ModelConfig())
    define_options(DeviceConfig())
    flags.DEFINE_integer(
        "max_seq_length", 128, "Maximum sequence length, in tokens; longer texts are truncated."
    )
    flags.DEFINE_integer("batch_size", 32, "Total batch size for predictions.", lower_bound=1)
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16", "float16"],
        "Compute dtype. (bert_tf)",
    )
    usage.group("Sequences", "max_seq_length")
    usage.group("Devices, speed and memory", "batch_size", "dtype")


def model_files():
    return bert_tf.checkpoints.resolve(
        from_flags(ModelConfig()),
        needs=("init_checkpoint", "bert_config_file", "vocab_file"),
        default_lower_case=FLAGS.do_lower_case,
    )


def pipeline_options():
    if bert_tf.training.strategy.tf_config() > 1:
        raise bert_tf.UserError(bert_tf.pipelines.SINGLE_PROCESS_MESSAGE)
    device = from_flags(DeviceConfig())
    device.check_dtype(FLAGS.dtype)
    return {
        "dtype": TrainConfig(dtype=FLAGS.dtype).dtype_policy,
        "strategy": bert_tf.training.make_strategy(**dataclasses.asdict(device)),
        "batch_size": FLAGS.batch_size,
        # The default depends on the model.
        "max_seq_length": FLAGS.max_seq_length if FLAGS["max_seq_length"].present else None,
    }


def check_requires(flag, required):
    is_given = FLAGS[flag].present and FLAGS[flag].value is not False
    if is_given and not any(FLAGS[name].value for name in required):
        names = " or ".join(f"--{name}" for name in required)
        raise bert_tf.UserError(f"--{flag} requires {names}")
