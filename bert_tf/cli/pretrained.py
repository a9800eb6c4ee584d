"""Flags shared by the scripts of pre-trained models, and their conversion to arguments."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import define_options, from_flags
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.task import TaskConfig
from bert_tf.configs.train import BatchConfig, DeviceConfig, TrainConfig

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_model_flags():
    define_options(ModelConfig)
    define_options(DeviceConfig)
    define_options(TaskConfig, only=("max_seq_length",))
    define_options(BatchConfig, only=("batch_size",))
    define_options(TrainConfig, only=("dtype",))


def model_files():
    model = from_flags(ModelConfig)
    needs = ("init_checkpoint", "bert_config_file", "vocab_file")
    return bert_tf.checkpoints.resolve(model, needs, default_lower_case=FLAGS.do_lower_case)


def make_strategy():
    from bert_tf.training.prediction import SINGLE_PROCESS_MESSAGE  # imports TensorFlow

    if len(bert_tf.training.cluster.read_tf_config()[0]) > 1:
        raise bert_tf.UserError(SINGLE_PROCESS_MESSAGE)
    device = from_flags(DeviceConfig)
    device.check_dtype(FLAGS.dtype)
    return bert_tf.training.make_strategy(device)


def load(task_class, **options):
    # The default depends on the model.
    length = FLAGS.max_seq_length if FLAGS["max_seq_length"].present else None
    dtype = TrainConfig(dtype=FLAGS.dtype).dtype_policy
    with make_strategy().scope():
        return task_class.from_preset(model_files(), max_seq_length=length, dtype=dtype, **options)
