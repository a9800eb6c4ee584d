"""The configuration of every command, as dataclasses; nothing here needs TensorFlow."""

from bert_tf.configs.model import BertConfig
from bert_tf.configs.pretraining import InstanceConfig, PretrainingConfig
from bert_tf.configs.train import (
    DeviceConfig,
    FineTuneConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)

__all__ = [
    "BertConfig",
    "DeviceConfig",
    "FineTuneConfig",
    "InstanceConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PretrainingConfig",
    "TrainConfig",
]
