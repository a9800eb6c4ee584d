"""SavedModels for TF Serving and for anybody who has TensorFlow."""

import importlib

from bert_tf.serving.export import export_classifier
from bert_tf.serving.sentences import export_sentence_encoder

__all__ = ["export_answerer", "export_classifier", "export_sentence_encoder"]


def __getattr__(name):
    # The tokenizer in the graph is loaded by those who use it.
    if name == "export_answerer":
        return importlib.import_module(f"{__name__}.answering").export_answerer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
