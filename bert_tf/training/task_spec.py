"""The parts of a task, and the registry of all tasks; does not import TensorFlow."""

import dataclasses
from typing import Any

from bert_tf.io import files
from bert_tf.lazy import LazyImport

TASKS: dict[str, "TaskSpec"] = {}


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A kind of exported model, as `model.json` and `export_model.py --task` name it.

    Attributes:
      answers: the subclass of `serving.answers.Answers`, or its "module:name"; None returns all
        outputs as answers.
      config: the values of the task's `TaskConfig` that distinguish this kind.
      options: names of the `export_model.py` options for models fine-tuned elsewhere.
    """

    answers: Any = LazyImport()
    config: dict = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """The components of a task for `fine_tune`, the scripts, the pipelines and export.

    Components may be given as "module:name", which is imported on use. A task without fine-tuning
    has only `name`, `served`, `pipeline` and `pretrained_servable`.

    Attributes:
      name: name of the task, such as "question_answering".
      script: the training script.
      side_file: name of the file that stores the `TaskConfig` in a model's folder.
      config_class: the `TaskConfig` class.
      read: function from (task_config, model, splits, stored) to `TaskData`, with a resolved
        `config_class`, `checkpoints.PretrainedFiles`, the required set of "train", "dev" and
        "test", and the `TaskConfig` of a trained run or None.
      make_model: function from (config, dtype) to the Keras model.
      make_servable: function from (model, config, `configs.ServingConfig`) to a `serving.Servable`.
      pretrained_servable: function from (preset, `configs.ServingConfig`, max_seq_length,
        **options) to the `serving.Servable` of a model without a fine-tuned head.
      pipeline: the `bert_tf.pipelines` class that takes strings.
      served: dict from names of exported models to `ServedTask`. If empty, the task is served under
        its own name with all outputs as answers.
      heads: class-name suffixes of the transformers models with this head, such as "ForMaskedLM".
    """

    name: str
    script: str = ""
    side_file: str = ""
    config_class: Any = LazyImport()
    read: Any = LazyImport()
    make_model: Any = LazyImport()
    make_servable: Any = LazyImport()
    pretrained_servable: Any = LazyImport()
    pipeline: Any = LazyImport()
    served: dict[str, ServedTask] = dataclasses.field(default_factory=dict)
    heads: tuple[str, ...] = ()


def register(spec):
    """Add a `TaskSpec` to `TASKS`, and register its side file as part of a model."""
    TASKS[spec.name] = spec
    if spec.side_file:
        files.TASK_CONFIG_FILES[spec.side_file] = spec.script


def served_tasks():
    """Return a dict from names of exported models to (`TaskSpec`, `ServedTask`)."""
    return {
        name: (spec, served)
        for spec in TASKS.values()
        for name, served in (spec.served or {spec.name: ServedTask()}).items()
    }
