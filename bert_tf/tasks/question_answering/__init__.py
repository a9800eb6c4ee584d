"""Questions and their answers in a context: SQuAD 1.1 and 2.0.

`reading` and `tfds` give questions, `features` cuts their contexts into windows, `writing` keeps
these as records, `task` is the model, `answers` makes answers of what it says, `scoring` compares
them with those of the data, `results` writes them.
"""

from bert_tf.tasks.question_answering.answers import DecodingConfig
from bert_tf.tasks.question_answering.features import WindowConfig
from bert_tf.tasks.question_answering.reading import JsonSource, survey
from bert_tf.tasks.question_answering.results import Results
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.tasks.question_answering.settings import (
    SpanSettings,
    load_spans,
    save_spans,
    settle_spans,
)
from bert_tf.tasks.question_answering.task import AnswerExtractor, SpanTask
from bert_tf.tasks.question_answering.tfds import SpanSource
from bert_tf.tasks.question_answering.writing import WindowCache

__all__ = [
    "AnswerExtractor",
    "DecodingConfig",
    "JsonSource",
    "Results",
    "Scorer",
    "SpanSettings",
    "SpanSource",
    "SpanTask",
    "WindowCache",
    "WindowConfig",
    "load_spans",
    "save_spans",
    "settle_spans",
    "survey",
]
