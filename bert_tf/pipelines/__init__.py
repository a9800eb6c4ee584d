"""Pipelines that apply, train, save and export models on strings."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "text_pipeline": (
            "SINGLE_PROCESS_MESSAGE",
            "Text",
            "TextPipeline",
            "TextPreprocessor",
            "read_texts",
        ),
        "feature_extraction": (
            "TextVectors",
            "TokenVectors",
        ),
        "tokenizer_layer": ("BertTokenizer",),
        "vector_files": ("array_writer", "json_line"),
    },
)
