"""SavedModels for TF Serving and for anybody who has TensorFlow.

`export` writes what one of the other functions makes of a model: a `Servable`.
"""

import importlib

# What makes graphs of text is loaded by those who use it.
_MODULES = {
    "Client": "client",
    "Options": "exporting",
    "Predictor": "predictor",
    "Servable": "exporting",
    "answerer": "question_answering",
    "chooser": "classification",
    "classifier": "classification",
    "encoder": "encoders",
    "export": "exporting",
    "masked_words": "encoders",
    "read_metadata": "rows",
    "sentences": "encoders",
    "tagger": "token_classification",
}

__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
