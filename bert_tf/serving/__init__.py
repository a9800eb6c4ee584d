"""Export SavedModels for TF Serving and TensorFlow programs, and load them."""

from bert_tf.serving.answers import Answers
from bert_tf.serving.exporting import Servable, export
from bert_tf.serving.predictor import Predictor, ServablePredictor, is_exported

__all__ = [
    "Answers",
    "Predictor",
    "Servable",
    "ServablePredictor",
    "export",
    "is_exported",
]
