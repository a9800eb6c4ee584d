"""Tagging words: named entities, parts of speech (BERT paper, section 5.3)."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("TokenClassificationConfig",),
        "data": ("SPEC", "TokenClassificationData", "read", "write_columns"),
        "features": ("Tags", "infer_tags", "valid_sentences"),
        "pipeline": (),
        "reading": ("ColumnFiles", "Sentence", "TfdsSentences"),
        "schemes": (),
        "scoring": (),
        "servable": (),
        "task": ("TokenClassificationTask", "make_model", "metric_names"),
    },
)
