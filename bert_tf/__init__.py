"""BERT for TensorFlow and Keras 3.

Packages are imported on first use, so `import bert_tf` and the `--help` of every script do not wait
for TensorFlow, which takes seconds to import.

>>> import bert_tf
>>> config = bert_tf.BertConfig(vocab_size=30522)
>>> model = bert_tf.BertModel(config)
"""

import importlib
from typing import TYPE_CHECKING

from bert_tf import keras_registry

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from bert_tf.config import BertConfig as BertConfig
    from bert_tf.errors import UserError as UserError
    from bert_tf.modeling import BertClassifier as BertClassifier
    from bert_tf.modeling import BertModel as BertModel
    from bert_tf.modeling import BertMultipleChoice as BertMultipleChoice
    from bert_tf.modeling import BertPretrainer as BertPretrainer
    from bert_tf.modeling import BertSpanLabeler as BertSpanLabeler
    from bert_tf.modeling import BertTokenClassifier as BertTokenClassifier
    from bert_tf.optimization import LAMB as LAMB
    from bert_tf.optimization import AdamWeightDecay as AdamWeightDecay
    from bert_tf.optimization import LinearWarmupDecay as LinearWarmupDecay
    from bert_tf.pipelines.fill_mask import FillMask as FillMask
    from bert_tf.pipelines.question_answering import QuestionAnswering as QuestionAnswering
    from bert_tf.pipelines.sentences import SentenceEncoder as SentenceEncoder
    from bert_tf.pipelines.text_classifier import TextClassifier as TextClassifier
    from bert_tf.pipelines.token_classification import TokenClassification as TokenClassification
    from bert_tf.pipelines.tokenizer_layer import BertTokenizer as BertTokenizer
    from bert_tf.tokenization import FullTokenizer as FullTokenizer
    from bert_tf.tokenization.graph import GraphTokenizer as GraphTokenizer

__version__ = "0.2.0.dev0"

_PACKAGES = (
    "checkpoints",
    "cli",
    "commands",
    "config",
    "console",
    "data",
    "errors",
    "files",
    "modeling",
    "optimization",
    "options",
    "pipelines",
    "pretraining_options",
    "processes",
    "serving",
    "task_options",
    "tasks",
    "tokenization",
    "toy_corpus",
    "training",
)

# The most common names, and the package of each.
_NAMES = {
    "AdamWeightDecay": "optimization",
    "BertMultipleChoice": "modeling",
    "BertClassifier": "modeling",
    "BertConfig": "config",
    "BertModel": "modeling",
    "BertPretrainer": "modeling",
    "BertSpanLabeler": "modeling",
    "BertTokenClassifier": "modeling",
    "BertTokenizer": "pipelines",
    "FullTokenizer": "tokenization",
    "GraphTokenizer": "tokenization",
    "LAMB": "optimization",
    "LinearWarmupDecay": "optimization",
    "FillMask": "pipelines",
    "QuestionAnswering": "pipelines",
    "SentenceEncoder": "pipelines",
    "TextClassifier": "pipelines",
    "TokenClassification": "pipelines",
    "UserError": "errors",
}

# Names of version 0.1.
_DEPRECATED = {
    "BertChooser": "BertMultipleChoice",
    "BertSpanFinder": "BertSpanLabeler",
    "BertTagger": "BertTokenClassifier",
    "MaskedWords": "FillMask",
    "features": "bert_tf:pipelines",
}

__all__ = [*_PACKAGES, *_NAMES]

keras_registry.install()


def __getattr__(name):
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    from bert_tf.deprecation import deprecated_names

    return deprecated_names(__name__, _DEPRECATED)(name)


def __dir__():
    return sorted([*globals(), *__all__])
