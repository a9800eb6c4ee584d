"""For each task: examples to features, the losses of its model, its results.

`TASKS` is the registry: everything else finds a task there. To add one, write a module with a
`TaskSpec` and register it (see docs/architecture.md). Importing this package, or the `config` of a
task, does not import TensorFlow.
"""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "classification": (),
        "classification.config": ("ClassificationConfig",),
        "classification.task": ("TASK_CLASSES", "ClassificationTask", "DistillationConfig"),
        "multiple_choice": (),
        "multiple_choice.config": ("MultipleChoiceConfig",),
        "question_answering": (),
        "question_answering.config": ("QuestionAnsweringConfig",),
        "registry": (
            "TASKS",
            "BadRows",
            "FeatureCache",
            "PretrainingTask",
            "RecordFormat",
            "Task",
            "TaskConfig",
            "TaskData",
            "TaskSpec",
            "check_length",
            "check_vocabulary",
            "load_config",
            "metrics",
            "register",
        ),
        "token_classification": (),
        "token_classification.config": ("TokenClassificationConfig",),
    },
)
