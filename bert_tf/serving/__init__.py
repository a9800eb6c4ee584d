"""SavedModels for TF Serving and for programs that use TensorFlow, and clients of them.

Functions such as `classification_servable` make a `Servable` from a model, which `export` writes.
"""

import importlib

# The module of each name; modules are imported on first use, because most need tensorflow-text.
_MODULES = {
    "Client": "client",
    "Options": "prepared_model",
    "Predictor": "predictor",
    "Servable": "exporting",
    "ServablePredictor": "predictor",
    "ServerError": "transports",
    "classification_servable": "classification",
    "encoder_servable": "encoders",
    "export": "exporting",
    "fill_mask_servable": "encoders",
    "multiple_choice_servable": "classification",
    "question_answering_servable": "question_answering",
    "read_metadata": "predictor",
    "sentence_embedding_servable": "encoders",
    "token_classification_servable": "token_classification",
}

# Names of version 0.1.
_DEPRECATED = {
    "answerer": "question_answering_servable",
    "chooser": "multiple_choice_servable",
    "classifier": "classification_servable",
    "encoder": "encoder_servable",
    "masked_words": "fill_mask_servable",
    "sentences": "sentence_embedding_servable",
    "tagger": "token_classification_servable",
}

__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    from bert_tf.deprecation import deprecated_names

    return deprecated_names(__name__, _DEPRECATED)(name)
