"""BERT for TensorFlow and Keras 3.

Packages are imported on first use, because TensorFlow takes seconds to import and `--help` of a
script should not wait for it.

>>> import bert_tf
>>> config = bert_tf.BertConfig(vocab_size=30522)
>>> model = bert_tf.BertModel(config)
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from bert_tf import keras_registry, lazy

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from bert_tf.configs.model import BertConfig as BertConfig
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
    from bert_tf.pipelines.tokenizer_layer import BertTokenizer as BertTokenizer
    from bert_tf.tasks.classification.pipeline import TextClassifier as TextClassifier
    from bert_tf.tasks.classification.processor import DataProcessor as DataProcessor
    from bert_tf.tasks.classification.processor import InputExample as InputExample
    from bert_tf.tasks.fill_mask.pipeline import FillMask as FillMask
    from bert_tf.tasks.multiple_choice.pipeline import MultipleChoice as MultipleChoice
    from bert_tf.tasks.question_answering.pipeline import QuestionAnswering as QuestionAnswering
    from bert_tf.tasks.sentence_embedding.pipeline import SentenceEncoder as SentenceEncoder
    from bert_tf.tasks.token_classification.pipeline import (
        TokenClassification as TokenClassification,
    )
    from bert_tf.tokenization import FullTokenizer as FullTokenizer
    from bert_tf.tokenization.graph import GraphTokenizer as GraphTokenizer

__version__ = "0.3.0"

_PACKAGES = (
    "checkpoints",
    "cli",
    "commands",
    "configs",
    "console",
    "data",
    "errors",
    "io",
    "modeling",
    "optimization",
    "pipelines",
    "serving",
    "tasks",
    "tokenization",
    "training",
    "device_check",
)

# Names of the public API -> module that defines them.
_NAMES = {
    "AdamWeightDecay": "optimization",
    "BertMultipleChoice": "modeling",
    "BertClassifier": "modeling",
    "BertConfig": "configs.model",
    "BertModel": "modeling",
    "BertPretrainer": "modeling",
    "BertSpanLabeler": "modeling",
    "BertTokenClassifier": "modeling",
    "BertTokenizer": "pipelines",
    "DataProcessor": "tasks.classification",
    "FullTokenizer": "tokenization",
    "GraphTokenizer": "tokenization",
    "InputExample": "tasks.classification",
    "LAMB": "optimization",
    "LinearWarmupDecay": "optimization",
    "FillMask": "tasks.fill_mask.pipeline",
    "MultipleChoice": "tasks.multiple_choice.pipeline",
    "QuestionAnswering": "tasks.question_answering.pipeline",
    "SentenceEncoder": "tasks.sentence_embedding.pipeline",
    "TextClassifier": "tasks.classification.pipeline",
    "TokenClassification": "tasks.token_classification.pipeline",
    "UserError": "errors",
}


__all__ = [*_PACKAGES, *_NAMES]

# TensorFlow is an optional dependency, because several packages provide it.
if importlib.util.find_spec("tensorflow") is None:
    raise ImportError(
        "bert_tf requires TensorFlow, which is not installed: pip install 'bert_tf[tensorflow]'; "
        "for tensorflow-cpu, tensorflow-tpu or tf-nightly see docs/versions.md"
    )

keras_registry.install()
# For `from_preset` in packages that `checkpoints` imports.
lazy.provide("load_model", "bert_tf.checkpoints")
lazy.provide("resolve", "bert_tf.checkpoints")


def __getattr__(name):
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])


# Registers the tasks; does not import TensorFlow.
importlib.import_module(f"{__name__}.tasks")
