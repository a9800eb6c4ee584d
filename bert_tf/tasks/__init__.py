"""For each task: examples to features, the losses of its model, its results.

`TASKS` is the registry: everything else finds a task there. To add one, write a module with a
`TaskSpec` and register it (see docs/architecture.md).
"""

from bert_tf.data.feature_cache import FeatureCache
from bert_tf.data.rows import BadRows
from bert_tf.io import files
from bert_tf.tasks import classification, multiple_choice, question_answering, token_classification
from bert_tf.tasks.classification import (
    TASK_CLASSES,
    ClassificationConfig,
    ClassificationOptions,
    ClassificationTask,
    DistillationConfig,
)
from bert_tf.tasks.multiple_choice import MultipleChoiceConfig, MultipleChoiceOptions
from bert_tf.tasks.question_answering import QuestionAnsweringConfig, QuestionAnsweringOptions
from bert_tf.tasks.token_classification import (
    TokenClassificationConfig,
    TokenClassificationOptions,
)
from bert_tf.tokenization.vocabulary import check_vocabulary
from bert_tf.training import metrics
from bert_tf.training.pretraining_task import PretrainingTask
from bert_tf.training.task import RecordFormat, Task, TaskData, TaskOptions, TaskSpec
from bert_tf.training.task_config import TaskConfig, check_length

TASKS: dict[str, TaskSpec] = {}


def register(spec):
    """Add a `TaskSpec` to `TASKS`, and its side file to those that belong to a model."""
    TASKS[spec.name] = spec
    files.TASK_FILES[spec.config_class.FILE] = spec.script


register(classification.SPEC)
register(question_answering.SPEC)
register(token_classification.SPEC)
register(multiple_choice.SPEC)


def load_config(folder):
    """Return (`TaskSpec`, `TaskConfig`) of a fine-tuned model; (None, None) if there is none.

    `folder` is the output folder of a run, or a folder with a copy of its files.
    """
    for spec in TASKS.values():
        if config := spec.config_class.load(folder):
            return spec, config
    return None, None


__all__ = [
    "TASKS",
    "TASK_CLASSES",
    "BadRows",
    "ClassificationConfig",
    "ClassificationOptions",
    "ClassificationTask",
    "DistillationConfig",
    "FeatureCache",
    "MultipleChoiceConfig",
    "MultipleChoiceOptions",
    "PretrainingTask",
    "QuestionAnsweringConfig",
    "QuestionAnsweringOptions",
    "RecordFormat",
    "Task",
    "TaskConfig",
    "TaskData",
    "TaskOptions",
    "TaskSpec",
    "TokenClassificationConfig",
    "TokenClassificationOptions",
    "check_length",
    "check_vocabulary",
    "classification",
    "load_config",
    "metrics",
    "multiple_choice",
    "question_answering",
    "register",
    "token_classification",
]
