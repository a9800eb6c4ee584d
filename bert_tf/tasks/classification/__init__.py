"""Classifying or scoring a text or a pair of texts (BERT paper, section 4.1)."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "columns": ("Columns", "Layout"),
        "config": ("ClassificationConfig", "NumericFeature"),
        "data": ("SPEC", "ClassificationData", "make_model", "read"),
        "examples": ("Example", "class_weights"),
        "features": ("features", "schema_of", "write_features"),
        "glue": ("custom_task", "find_task"),
        "pipeline": (),
        "reading": ("FileSource", "read_examples"),
        "servable": (),
        "source": ("make_source", "read_splits"),
        "task": (
            "TASK_CLASSES",
            "ClassificationTask",
            "DistillationConfig",
            "MultiLabelTask",
            "RegressionTask",
        ),
        "tfds_source": ("TfdsSource",),
    },
)
