"""The tasks, one subpackage each: data, features, losses, metrics, results and export.

`TASKS` is the registry. To add a task, write a package with a `TaskSpec` and register it (see
docs/architecture.md). Importing this package does not import TensorFlow.
"""

import importlib

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import TASKS, register

_PACKAGES = (
    "encoder",
    "sentence_embedding",
    "fill_mask",
    "classification",
    "question_answering",
    "token_classification",
    "multiple_choice",
)

for _name in _PACKAGES:
    register(importlib.import_module(f"{__name__}.{_name}").SPEC)


__getattr__, _names = lazy_names(
    __name__,
    {
        "classification": (
            "TASK_CLASSES",
            "ClassificationConfig",
            "ClassificationTask",
        ),
        "multiple_choice": ("MultipleChoiceConfig",),
        "question_answering": ("QuestionAnsweringConfig",),
        "sentence_embedding": ("SentenceEmbeddingConfig",),
        "servables": ("load_servable", "make_servable"),
        "token_classification": ("TokenClassificationConfig",),
        # The framework's classes that tasks build on.
        "bert_tf.data.feature_cache": ("FeatureCache",),
        "bert_tf.tokenization.vocabulary": ("check_vocabulary",),
        "bert_tf.training.pretraining_task": ("PretrainingTask",),
        "bert_tf.training.task": ("Task", "TaskData"),
        "bert_tf.training.task_spec": ("ServedTask", "TaskSpec", "served_tasks"),
        "bert_tf.training.task_config": ("TaskConfig", "check_length"),
    },
)


__all__ = sorted([*_names, *_PACKAGES, "TASKS", "load_config", "register"])


def load_config(folder):
    """Return the (`TaskSpec`, `TaskConfig`) of the output folder of a run, or (None, None)."""
    for spec in TASKS.values():
        if spec.config_class and (config := spec.config_class.load(folder)):
            return spec, config
    return None, None
