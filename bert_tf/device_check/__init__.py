"""The checks behind `bert-tf check`: devices must reproduce recorded results."""

from bert_tf.device_check.checks import RECORDED, Check, Checks, set_logical_devices
from bert_tf.device_check.jax_checks import JaxChecks
from bert_tf.device_check.speed import Speed, best_batch_size, measure_speed

__all__ = [
    "RECORDED",
    "Check",
    "Checks",
    "JaxChecks",
    "Speed",
    "best_batch_size",
    "measure_speed",
    "set_logical_devices",
]
