"""The model: layers, `BertModel` and the models for the tasks."""

from bert_tf.modeling.heads import (
    LAYER_COMBINATIONS,
    LayerCombination,
    MaskedLMHead,
    Projection,
    layer_indices,
)
from bert_tf.modeling.layers import Dropout, Embeddings, TransformerLayer
from bert_tf.modeling.models import (
    BertClassifier,
    BertFeatureTokenClassifier,
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
    "layer_indices",
]
