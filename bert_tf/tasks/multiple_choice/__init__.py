"""Choosing the ending of a text (BERT paper, section 4.4)."""

from bert_tf.task_options import MultipleChoiceOptions
from bert_tf.tasks.multiple_choice.task import (
    SPEC,
    Example,
    MultipleChoiceConfig,
    MultipleChoiceData,
    MultipleChoiceTask,
    features,
    read,
    read_examples,
)

__all__ = [
    "SPEC",
    "Example",
    "MultipleChoiceConfig",
    "MultipleChoiceData",
    "MultipleChoiceOptions",
    "MultipleChoiceTask",
    "features",
    "read",
    "read_examples",
]
