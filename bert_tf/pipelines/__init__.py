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
            "Attention",
            "EmbeddedText",
            "EmbeddingParts",
            "TextVectors",
            "TokenVectors",
        ),
        "tokenizer_layer": ("BertTokenizer",),
        "vector_files": ("array_writer", "read_vectors", "vector_writer"),
        "visualization": (
            "draw_attention",
            "draw_embeddings",
            "draw_mask_predictions",
            "draw_similarities",
            "draw_tokens",
            "import_matplotlib",
            "write_attention_page",
        ),
    },
)
