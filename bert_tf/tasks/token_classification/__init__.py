"""Tagging words: named entities, parts of speech (BERT paper, section 5.3)."""

from bert_tf.lazy import lazy_names
from bert_tf.task_options import TokenClassificationOptions
from bert_tf.tasks.token_classification import schemes, scoring
from bert_tf.tasks.token_classification.config import (
    FeatureBasedConfig,
    TokenClassificationConfig,
)
from bert_tf.tasks.token_classification.data import TokenClassificationData, read, write_columns
from bert_tf.tasks.token_classification.features import (
    Tags,
    WindowConfig,
    infer_tags,
    valid_sentences,
)
from bert_tf.tasks.token_classification.reading import ColumnFiles, Sentence, TfdsSentences
from bert_tf.tasks.token_classification.task import (
    TokenClassificationTask,
    make_model,
    metric_names,
)
from bert_tf.training.task import TaskSpec

SPEC = TaskSpec(
    name="token_classification",
    script="run_ner.py",
    options_class=TokenClassificationOptions,
    config_class=TokenClassificationConfig,
    read=read,
    make_model=make_model,
    servable="bert_tf.tasks.token_classification.servable:token_classification_servable",
)

# These need tensorflow-text.
__getattr__, _ = lazy_names(__name__, {"pipeline": (), "servable": ()})

__all__ = [
    "SPEC",
    "ColumnFiles",
    "FeatureBasedConfig",
    "Sentence",
    "Tags",
    "TfdsSentences",
    "TokenClassificationConfig",
    "TokenClassificationData",
    "TokenClassificationOptions",
    "TokenClassificationTask",
    "WindowConfig",
    "infer_tags",
    "make_model",
    "metric_names",
    "schemes",
    "scoring",
    "valid_sentences",
    "write_columns",
]
