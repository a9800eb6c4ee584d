"""The parts of a task."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A kind of exported model, as `model.json` and `export_model.py --task` name it.

    Attributes:
      answers: the subclass of `serving.answers.Answers`; None returns all outputs as answers.
      config: the values of the task's `TaskConfig` that distinguish this kind.
      options: names of the `export_model.py` options for models fine-tuned elsewhere.
    """

    answers: Any = None
    config: dict = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """The components of a task for `fine_tune`, the scripts, the pipelines and export.

    A task without fine-tuning has only `name`, `served` and `pretrained_servable`.

    Attributes:
      name: name of the task, such as "question_answering".
      config_class: the `TaskConfig` class.
      read: function from (task_config, model, splits, stored) to `TaskData`, with a resolved
        `config_class`, `checkpoints.PretrainedFiles`, the required set of "train", "dev" and
        "test", and the `TaskConfig` of a trained run or None.
      make_model: function from (config, dtype) to the Keras model.
      make_servable: function from (model, config, `configs.ServingConfig`) to a `serving.Servable`.
      pretrained_servable: function from (preset, `configs.ServingConfig`, max_seq_length,
        **options) to the `serving.Servable` of a model without a fine-tuned head.
      served: dict from names of exported models to `ServedTask`. If empty, the task is served under
        its own name with all outputs as answers.
    """

    name: str
    config_class: Any = None
    read: Any = None
    make_model: Any = None
    make_servable: Any = None
    pretrained_servable: Any = None
    served: dict[str, ServedTask] = dataclasses.field(default_factory=dict)
