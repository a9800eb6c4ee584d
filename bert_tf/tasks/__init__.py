"""For each kind of task: examples to features, the losses of its model, its results.

A further task is a further file here, or an entry of `glue.TASKS`.
"""

from bert_tf.tasks import choice, choice_files, metrics, question_answering, token_classification
from bert_tf.tasks.cache import Features
from bert_tf.tasks.checks import check_length, check_vocabulary, settle_config
from bert_tf.tasks.classification import (
    ClassificationTask,
    DistillationConfig,
    schema_of,
    write_features,
)
from bert_tf.tasks.columns import Layout
from bert_tf.tasks.glue import find_task, own_task, part_of, result_name
from bert_tf.tasks.kept_settings import check_kind
from bert_tf.tasks.kinds import TASK_CLASSES, MultiLabelTask, RegressionTask
from bert_tf.tasks.labels import labels_of
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.tasks.results import (
    decided,
    write_eval_results,
    write_predictions,
    write_submission,
    write_test_results,
)
from bert_tf.tasks.seeds import seed_folder, seed_folders, write_seeds
from bert_tf.tasks.settings import Settings, load_settings, settle, with_stored_normalization
from bert_tf.tasks.sources import FileSource, read_data
from bert_tf.tasks.tfds import TfdsSource
from bert_tf.tasks.tsv import BadRows, read_examples
from bert_tf.tasks.weights import class_weights

__all__ = [
    "TASK_CLASSES",
    "BadRows",
    "ClassificationTask",
    "DistillationConfig",
    "Features",
    "FileSource",
    "Layout",
    "MultiLabelTask",
    "PretrainingTask",
    "RegressionTask",
    "Settings",
    "TfdsSource",
    "check_kind",
    "check_length",
    "check_vocabulary",
    "choice",
    "choice_files",
    "class_weights",
    "decided",
    "find_task",
    "labels_of",
    "load_settings",
    "metrics",
    "own_task",
    "part_of",
    "question_answering",
    "read_data",
    "read_examples",
    "result_name",
    "schema_of",
    "seed_folder",
    "seed_folders",
    "settle",
    "settle_config",
    "token_classification",
    "with_stored_normalization",
    "write_eval_results",
    "write_features",
    "write_predictions",
    "write_seeds",
    "write_submission",
    "write_test_results",
]
