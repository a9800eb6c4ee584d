"""Multiple choice between endings of a text (BERT paper, section 4.4); an example for new tasks."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="multiple_choice",
    script="run_multiple_choice.py",
    side_file="choice.json",
    config_class=f"{__name__}.config:MultipleChoiceConfig",
    read=f"{__name__}.data:read",
    make_model=f"{__name__}.task:make_model",
    make_servable=f"{__name__}.servable:multiple_choice_servable",
    pipeline=f"{__name__}.pipeline:MultipleChoice",
    served={"multiple_choice": ServedTask(f"{__name__}.servable:MultipleChoiceAnswers")},
    heads=("ForMultipleChoice",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("MultipleChoiceConfig",),
        "data": ("MultipleChoiceData", "read"),
        "features": ("convert_examples",),
        "pipeline": (),
        "reading": ("Example", "read_examples"),
        "servable": (),
        "task": ("MultipleChoiceTask", "make_model"),
    },
)
