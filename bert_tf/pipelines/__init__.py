"""What a pre-trained model says of texts as it is: vectors, masked words, attention."""

import importlib

# Where each name lives; loaded when it is touched.
_PLACES = {
    "Attention": "attention",
    "EmbeddingParts": "embeddings",
    "ModelFiles": "presets",
    "FillMask": "fill_mask",
    "Nearest": "nearest",
    "ONE_PROCESS": "runner",
    "Row": "runner",
    "Runner": "runner",
    "SentenceEncoder": "sentences",
    "TextRows": "texts",
    "TokenVectors": "tokens",
    "array_writer": "writers",
    "draw": "pictures",
    "draw_embeddings": "charts",
    "draw_guesses": "charts",
    "draw_nearness": "charts",
    "draw_tokens": "charts",
    "files_of": "presets",
    "matplotlib_parts": "pictures",
    "nearest_of": "nearest",
    "perplexity": "fill_mask",
    "read_texts": "texts",
    "read_vectors": "writers",
    "unit": "nearest",
    "vector_writer": "writers",
    "write_page": "page",
}

__all__ = list(_PLACES)


def __getattr__(name):
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
