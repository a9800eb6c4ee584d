"""Apply pre-trained models to texts without training: vectors, [MASK] predictions, attention."""

import importlib

from bert_tf.deprecation import deprecated_names

# The module of each public name; it is imported when the name is first used.
_MODULES = {
    "Attention": "feature_extraction",
    "BatchRunner": "runner",
    "EmbeddingParts": "feature_extraction",
    "FillMask": "fill_mask",
    "InputFeatures": "runner",
    "ModelFiles": "presets",
    "NearestNeighbors": "sentences",
    "SINGLE_PROCESS_MESSAGE": "runner",
    "SentenceEncoder": "sentences",
    "TextPreprocessor": "base",
    "TokenVectors": "feature_extraction",
    "array_writer": "vector_files",
    "draw_attention": "visualization",
    "draw_embeddings": "visualization",
    "draw_mask_predictions": "visualization",
    "draw_similarities": "visualization",
    "draw_tokens": "visualization",
    "find_model_files": "presets",
    "import_matplotlib": "visualization",
    "l2_normalize": "sentences",
    "nearest_neighbors": "sentences",
    "perplexity": "fill_mask",
    "read_texts": "base",
    "read_vectors": "vector_files",
    "vector_writer": "vector_files",
    "write_attention_page": "visualization",
}

# Names of version 0.1.
_deprecated = deprecated_names(
    __name__,
    {
        "MaskedWords": "FillMask",
        "Nearest": "NearestNeighbors",
        "ONE_PROCESS": "SINGLE_PROCESS_MESSAGE",
        "Row": "InputFeatures",
        "Runner": "BatchRunner",
        "TextRows": "TextPreprocessor",
        "draw": "draw_attention",
        "draw_guesses": "draw_mask_predictions",
        "draw_nearness": "draw_similarities",
        "files_of": "find_model_files",
        "matplotlib_parts": "import_matplotlib",
        "nearest_of": "nearest_neighbors",
        "unit": "l2_normalize",
        "write_page": "write_attention_page",
    },
)

__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return _deprecated(name)
