"""The one training loop on any strategy, and `fine_tune`, which drives it for every task."""

from bert_tf.data.input_pipeline import length_multiple
from bert_tf.deprecation import deprecated_names
from bert_tf.options import (
    DeviceConfig,
    FineTuneConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from bert_tf.pretraining_options import PretrainingConfig
from bert_tf.training.checkpointing import BestCheckpoint, check_metric, latest, log_best_checkpoint
from bert_tf.training.distillation import Teacher
from bert_tf.training.fine_tuning import fine_tune
from bert_tf.training.loop import PreemptionHandler, TrainLoop, exclusive_directory
from bert_tf.training.pretraining import pretrain
from bert_tf.training.step import TrainStep
from bert_tf.training.strategy import (
    Devices,
    Workers,
    find_devices,
    make_strategy,
    on_all_replicas,
    per_replica,
    set_seed,
    use_skip_padding,
    use_xla,
)
from bert_tf.training.trainer import Trainer

# Names of version 0.1.
_DEPRECATED = {
    "Options": "TrainConfig",
    "guard": "bert_tf.training:loop",
    "tell_of_best": "log_best_checkpoint",
}
__getattr__ = deprecated_names(__name__, _DEPRECATED)

__all__ = [
    "BestCheckpoint",
    "DeviceConfig",
    "Devices",
    "FineTuneConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PreemptionHandler",
    "PretrainingConfig",
    "Teacher",
    "TrainConfig",
    "TrainLoop",
    "TrainStep",
    "Trainer",
    "Workers",
    "check_metric",
    "exclusive_directory",
    "find_devices",
    "fine_tune",
    "latest",
    "length_multiple",
    "log_best_checkpoint",
    "make_strategy",
    "on_all_replicas",
    "per_replica",
    "pretrain",
    "set_seed",
    "use_skip_padding",
    "use_xla",
]
