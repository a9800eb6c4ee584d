"""The configuration of every command, as dataclasses; nothing here needs TensorFlow.

The configuration of a task is in its folder, `tasks/<task>/config.py`.
"""

from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.configs.model import BertConfig, ModelConfig
from bert_tf.configs.options import Config, fact, option
from bert_tf.configs.pretraining import PretrainingConfig
from bert_tf.configs.pretraining_data import InstanceConfig, PretrainingDataConfig
from bert_tf.configs.train import DeviceConfig, FineTuneConfig, OptimizerConfig, TrainConfig

__all__ = [
    "BertConfig",
    "Config",
    "DeviceConfig",
    "ExportConfig",
    "FineTuneConfig",
    "InstanceConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PretrainingConfig",
    "PretrainingDataConfig",
    "ServingConfig",
    "TrainConfig",
    "fact",
    "option",
]
