"""The model: layers, `BertModel` and the models for the tasks."""

from bert_tf.modeling.heads import MaskedLMHead, Projection
from bert_tf.modeling.layers import Dropout, Embeddings, TransformerLayer
from bert_tf.modeling.models import (
    BertClassifier,
    BertModel,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)

__all__ = [
    "BertClassifier",
    "BertModel",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertSpanLabeler",
    "BertTokenClassifier",
    "Dropout",
    "Embeddings",
    "MaskedLMHead",
    "Projection",
    "TransformerLayer",
]
