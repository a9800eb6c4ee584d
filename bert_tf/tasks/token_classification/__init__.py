"""Token classification: named entities, parts of speech (BERT paper, section 5.3)."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="token_classification",
    script="run_ner.py",
    side_file="tagger.json",
    config_class=f"{__name__}.config:TokenClassificationConfig",
    read=f"{__name__}.data:read",
    make_model=f"{__name__}.task:make_model",
    make_servable=f"{__name__}.servable:token_classification_servable",
    pipeline=f"{__name__}.pipeline:TokenClassification",
    served={
        "token_classification": ServedTask(
            f"{__name__}.servable:TokenClassificationAnswers", options=("labels",)
        ),
    },
    heads=("ForTokenClassification",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("Tags", "TokenClassificationConfig"),
        "data": ("TokenClassificationData", "read", "write_columns"),
        "features": ("infer_tags", "valid_sentences"),
        "pipeline": (),
        "reading": ("ColumnFiles", "Sentence", "TfdsSentences"),
        "schemes": (),
        "scoring": (),
        "servable": (),
        "task": ("TokenClassificationTask", "make_model", "metric_names"),
    },
)
