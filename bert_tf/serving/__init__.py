"""Export SavedModels for TF Serving and TensorFlow programs, and load them."""

from bert_tf.serving.answers import Answer, all_outputs
from bert_tf.serving.exporting import Servable, choose_version, export
from bert_tf.serving.predictor import Predictor, find_version
