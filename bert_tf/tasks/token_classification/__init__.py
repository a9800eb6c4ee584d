"""Tagging words: named entities, parts of speech (BERT paper, section 5.3)."""

from bert_tf.tasks.token_classification import schemes, scoring
from bert_tf.tasks.token_classification.features import (
    TagFeatures,
    Tags,
    WindowConfig,
    infer_tags,
    valid_sentences,
)
from bert_tf.tasks.token_classification.reading import ColumnFiles, Sentence, TfdsSentences
from bert_tf.tasks.token_classification.results import write_columns
from bert_tf.tasks.token_classification.settings import TagSettings, load_tags, settle_tags
from bert_tf.tasks.token_classification.task import TaggingTask, make_model, metric_names

__all__ = [
    "ColumnFiles",
    "Sentence",
    "TagFeatures",
    "TagSettings",
    "TaggingTask",
    "Tags",
    "TfdsSentences",
    "WindowConfig",
    "infer_tags",
    "load_tags",
    "make_model",
    "metric_names",
    "schemes",
    "scoring",
    "settle_tags",
    "valid_sentences",
    "write_columns",
]
