"""The configuration of a multiple choice model."""

import dataclasses

from bert_tf.tasks.multiple_choice import SPEC
from bert_tf.training.task_config import TaskConfig


@dataclasses.dataclass(frozen=True)
class MultipleChoiceConfig(TaskConfig):
    """The configuration of a multiple choice model, in `choice.json`.

    The number of choices is not part of it: the model scores any number.
    """

    FILE = SPEC.side_file
