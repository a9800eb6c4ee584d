"""The model: layers, `BertModel` and the models for the tasks."""

from bert_tf.modeling.heads import MaskedLMHead as MaskedLMHead
from bert_tf.modeling.heads import Projection as Projection
from bert_tf.modeling.layers import Dropout as Dropout
from bert_tf.modeling.layers import Embeddings as Embeddings
from bert_tf.modeling.layers import TransformerLayer as TransformerLayer
from bert_tf.modeling.models import BertClassifier as BertClassifier
from bert_tf.modeling.models import BertModel as BertModel
from bert_tf.modeling.models import BertMultipleChoice as BertMultipleChoice
from bert_tf.modeling.models import BertPretrainer as BertPretrainer
from bert_tf.modeling.models import BertSpanLabeler as BertSpanLabeler
from bert_tf.modeling.models import BertTokenClassifier as BertTokenClassifier
