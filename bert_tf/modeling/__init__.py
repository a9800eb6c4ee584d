"""The model: layers, `BertModel` and its heads, in `keras` and `keras.ops` only."""

from bert_tf.modeling.heads import MaskedLMHead, Projection
from bert_tf.modeling.layer_combination import (
    LAYER_COMBINATIONS,
    BertFeatureTokenClassifier,
    LayerCombination,
)
from bert_tf.modeling.layers import Dropout, Embeddings, TransformerLayer, training_mode
from bert_tf.modeling.models import (
    BertClassifier,
    BertModel,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)

__all__ = [
    "LAYER_COMBINATIONS",
    "BertClassifier",
    "BertFeatureTokenClassifier",
    "BertModel",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertSpanLabeler",
    "BertTokenClassifier",
    "Dropout",
    "Embeddings",
    "LayerCombination",
    "MaskedLMHead",
    "Projection",
    "TransformerLayer",
    "training_mode",
]
