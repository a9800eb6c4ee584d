"""The parts of a task, and the registry of all tasks; imported without TensorFlow.

`bert_tf.tasks` registers the tasks of this package. The framework finds a task here and never names
one.
"""

import dataclasses
from typing import Any

from bert_tf.io import files
from bert_tf.lazy import OnUse

# The tasks by name.
TASKS: dict[str, "TaskSpec"] = {}


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A kind of exported model, as `model.json` and `export_model.py --task` name it.

    Attributes:
      answers: the subclass of `serving.answers.Answers`, or its "module:name"; None if the answers
        are all outputs.
      config: values of the task's `TaskConfig` that distinguish it from other kinds.
      options: names of the options of `export_model.py` that a model fine-tuned elsewhere has.
    """

    answers: Any = OnUse()
    config: dict = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Everything that `fine_tune`, the scripts, the pipelines and export need of a task.

    The parts may be given as "module:name", which is imported on use. A task that is not fine-tuned
    has only a name, `served`, `pipeline` and `pretrained_servable`.

    Attributes:
      name: of the task, such as "question_answering".
      script: the script that trains it.
      side_file: name of the file with its `TaskConfig` in the folder of a model.
      config_class: its `TaskConfig`.
      read: function from (options, model, parts, stored) to `TaskData`, where `options` is a
        resolved `config_class`, `model` are `checkpoints.PretrainedFiles`, `parts` the set of
        "train", "dev" and "test" that are needed, and `stored` the `TaskConfig` of a
        trained run, or None.
      make_model: function from (config, dtype) to the Keras model.
      make_servable: function from (model, config, `configs.ServingConfig`) to a `serving.Servable`.
      pretrained_servable: function from (preset, `configs.ServingConfig`, max_seq_length,
        **options) to the `serving.Servable` of a model without a fine-tuned head.
      pipeline: the class for strings, of `bert_tf.pipelines`.
      served: dict from the names of the exported models to `ServedTask`; the name of the task, with
        all outputs as answers, if it is empty.
      can_distill: whether the task can learn from a teacher.
      heads: the names of the classes of transformers with its head, without their beginning, such
        as "ForMaskedLM".
    """

    name: str
    script: str = ""
    side_file: str = ""
    config_class: Any = OnUse()
    read: Any = OnUse()
    make_model: Any = OnUse()
    make_servable: Any = OnUse()
    pretrained_servable: Any = OnUse()
    pipeline: Any = OnUse()
    served: dict[str, ServedTask] = dataclasses.field(default_factory=dict)
    can_distill: bool = False
    heads: tuple[str, ...] = ()


def register(spec):
    """Add a `TaskSpec` to `TASKS`, and its side file to those that belong to a model."""
    TASKS[spec.name] = spec
    if spec.side_file:
        files.TASK_FILES[spec.side_file] = spec.script


def served_tasks():
    """Return a dict from each name of an exported model to its (`TaskSpec`, `ServedTask`)."""
    return {
        name: (spec, served)
        for spec in TASKS.values()
        for name, served in (spec.served or {spec.name: ServedTask()}).items()
    }
