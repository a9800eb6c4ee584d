"""Apply pre-trained models to texts without training: vectors, [MASK] predictions, attention."""

import importlib

from bert_tf.deprecation import deprecated_names

# The public names of each module; a module is imported when one of them is first used.
_NAMES = {
    "text_pipeline": ("TextPreprocessor", "read_texts"),
    "feature_extraction": ("Attention", "EmbeddingParts", "TokenVectors"),
    "fill_mask": ("FillMask", "perplexity"),
    "presets": ("ModelFiles", "find_model_files", "find_preset"),
    "question_answering": ("QuestionAnswering",),
    "runner": ("BatchRunner", "InputFeatures", "SINGLE_PROCESS_MESSAGE"),
    "sentences": ("NearestNeighbors", "SentenceEncoder", "l2_normalize", "nearest_neighbors"),
    "text_classifier": ("TextClassifier",),
    "token_classification": ("TokenClassification",),
    "tokenizer_layer": ("BertTokenizer",),
    "vector_files": ("array_writer", "read_vectors", "vector_writer"),
    "visualization": ("draw_attention", "draw_embeddings", "draw_mask_predictions",
                      "draw_similarities", "draw_tokens", "import_matplotlib",
                      "write_attention_page"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

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

__all__ = list(_MODULE_OF)


def __getattr__(name):
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return _deprecated(name)
