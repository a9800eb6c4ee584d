"""The public names, which bert_tf imports on first use."""

from . import checkpoints as checkpoints
from . import cli as cli
from . import commands as commands
from . import configs as configs
from . import console as console
from . import data as data
from . import device_check as device_check
from . import errors as errors
from . import io as io
from . import modeling as modeling
from . import optimization as optimization
from . import serving as serving
from . import tasks as tasks
from . import tokenization as tokenization
from . import training as training
from .configs.model import BertConfig as BertConfig
from .errors import UserError as UserError
from .modeling import BertClassifier as BertClassifier
from .modeling import BertModel as BertModel
from .modeling import BertMultipleChoice as BertMultipleChoice
from .modeling import BertPretrainer as BertPretrainer
from .modeling import BertSpanLabeler as BertSpanLabeler
from .modeling import BertTokenClassifier as BertTokenClassifier
from .optimization import LAMB as LAMB
from .optimization import AdamWeightDecay as AdamWeightDecay
from .optimization import LinearWarmupDecay as LinearWarmupDecay
from .tasks.classification.processor import DataProcessor as DataProcessor
from .tasks.classification.processor import InputExample as InputExample
from .tasks.classification.task import TextClassifier as TextClassifier
from .tasks.fill_mask.task import FillMask as FillMask
from .tasks.multiple_choice.task import MultipleChoice as MultipleChoice
from .tasks.question_answering.task import QuestionAnswering as QuestionAnswering
from .tasks.sentence_embedding.task import SentenceEncoder as SentenceEncoder
from .tasks.token_classification.task import (
    TokenClassification as TokenClassification,
)
from .tasks.token_vectors.task import TokenVectors as TokenVectors
from .tokenization import FullTokenizer as FullTokenizer
from .tokenization.graph import GraphTokenizer as GraphTokenizer
from .tokenization.layer import BertTokenizer as BertTokenizer

__version__: str
