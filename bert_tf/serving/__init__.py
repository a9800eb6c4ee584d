"""Export SavedModels for TF Serving and TensorFlow programs, and load them."""

from bert_tf.serving.exporting import Servable, choose_version, export
from bert_tf.serving.predictor import Predictor, all_outputs, find_version
