"""For each kind of task: examples to features, the losses of its model, its results.

A further task is a further file here.
"""

from bert_tf.tasks.checks import check_length, check_vocabulary, settle_config
from bert_tf.tasks.classification import (
    ClassificationTask,
    Settings,
    load_settings,
    settle,
    write_features,
    write_test_results,
)
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.tasks.results import write_eval_results
from bert_tf.tasks.tsv import find_task, labels_of, read_examples

__all__ = [
    "ClassificationTask",
    "PretrainingTask",
    "Settings",
    "check_length",
    "check_vocabulary",
    "find_task",
    "labels_of",
    "load_settings",
    "read_examples",
    "settle",
    "settle_config",
    "write_eval_results",
    "write_features",
    "write_test_results",
]
