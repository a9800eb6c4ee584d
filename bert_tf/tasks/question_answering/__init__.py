"""Question answering on SQuAD 1.1 and 2.0 (BERT paper, sections 4.2 and 4.3)."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="question_answering",
    script="run_squad.py",
    side_file="squad.json",
    config_class=f"{__name__}.config:QuestionAnsweringConfig",
    read=f"{__name__}.data:read",
    make_model=f"{__name__}.data:make_model",
    make_servable=f"{__name__}.servable:question_answering_servable",
    pipeline=f"{__name__}.pipeline:QuestionAnswering",
    served={"question_answering": ServedTask(options=("version_2_with_negative",))},
    heads=("ForQuestionAnswering",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("QuestionAnsweringConfig",),
        "data": ("PredictionWriter", "QuestionAnsweringData", "make_model", "read"),
        "features": ("window_cache",),
        "pipeline": (),
        "reading": ("JsonSource", "TfdsQuestions", "validate_and_count"),
        "scoring": ("Scorer",),
        "servable": (),
        "task": ("AnswerExtractor", "QuestionAnsweringTask"),
    },
)
