"""SavedModels for TF Serving and for anybody who has TensorFlow."""

from bert_tf.serving.export import export_classifier
from bert_tf.serving.sentences import export_sentence_encoder

__all__ = ["export_classifier", "export_sentence_encoder"]
