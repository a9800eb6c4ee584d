"""Classification and regression of texts and text pairs (BERT paper, section 4.1)."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="classification",
    script="run_classifier.py",
    side_file="classifier.json",
    config_class=f"{__name__}.config:ClassificationConfig",
    read=f"{__name__}.data:read",
    make_model=f"{__name__}.data:make_model",
    make_servable=f"{__name__}.servable:classification_servable",
    pipeline=f"{__name__}.pipeline:TextClassifier",
    served={
        "classification": ServedTask(
            f"{__name__}.servable:ClassificationAnswers",
            {"task_type": "classification"},
            options=("labels", "num_texts"),
        ),
        "multi_label": ServedTask(
            f"{__name__}.servable:MultiLabelAnswers",
            {"task_type": "multi_label"},
            options=("labels", "num_texts"),
        ),
        "regression": ServedTask(
            f"{__name__}.servable:RegressionAnswers",
            {"task_type": "regression"},
            options=("num_texts",),
        ),
    },
    heads=("ForSequenceClassification",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "bert_tf.data.columns": ("Columns", "Layout"),
        "config": ("ClassificationConfig", "NumericFeature"),
        "data": ("ClassificationData", "make_model", "read"),
        "examples": ("Example", "class_weights"),
        "features": ("convert_examples", "record_schema", "write_features"),
        "glue": ("custom_dataset", "find_task"),
        "pipeline": (),
        "processor": ("DataProcessor", "InputExample"),
        "reading": ("FileSource", "read_examples"),
        "servable": (),
        "source": ("make_source", "read_splits"),
        "task": (
            "TASK_CLASSES",
            "ClassificationTask",
            "MultiLabelTask",
            "RegressionTask",
        ),
        "tfds_source": ("TfdsSource",),
    },
)
