"""Choosing the ending of a text (BERT paper, section 4.4)."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("MultipleChoiceConfig",),
        "task": (
            "SPEC",
            "Example",
            "MultipleChoiceData",
            "MultipleChoiceTask",
            "features",
            "make_model",
            "read",
            "read_examples",
        ),
    },
)
