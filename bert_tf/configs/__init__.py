"""Configurations of all commands, as dataclasses that do not need TensorFlow."""

from bert_tf.configs.base import Config, option
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.configs.model import BertConfig, ModelConfig
from bert_tf.configs.pretraining import InstanceConfig, PretrainingConfig, PretrainingDataConfig
from bert_tf.configs.train import DeviceConfig, FineTuneConfig, OptimizerConfig, TrainConfig
