"""SavedModels for TF Serving and for anybody who has TensorFlow."""

from bert_tf.serving.export import export_classifier

__all__ = ["export_classifier"]
