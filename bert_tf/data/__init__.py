"""Training data: records, the creation of pre-training examples, and input pipelines."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "dynamic_masking": (),
        "feature_cache": ("FeatureCache",),
        "input_pipeline": ("length_multiple",),
        "pretraining": (),
        "record_checks": (),
        "record_files": (),
        "records": (),
        "rows": ("BadRows",),
        "tables": (),
        "tfds_builder": (),
        "tfrecord": (),
    },
)
