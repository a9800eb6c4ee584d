"""Questions and their answers in a context: SQuAD 1.1 and 2.0.

`reading` reads questions, `features` converts them to windows and writes these to records,
`alignment` relates characters, words and tokens, `task` has the model, `decoding` turns its logits
into answers, `scoring` compares them with those of the data, and `results` writes them.
"""

from bert_tf.tasks.question_answering.decoding import DecodingConfig
from bert_tf.tasks.question_answering.features import WindowCache, WindowConfig
from bert_tf.tasks.question_answering.reading import JsonSource, TfdsQuestions, validate_and_count
from bert_tf.tasks.question_answering.results import Results
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.tasks.question_answering.settings import (
    SpanSettings,
    load_spans,
    save_spans,
    settle_spans,
)
from bert_tf.tasks.question_answering.task import AnswerExtractor, SpanTask

__all__ = [
    "AnswerExtractor",
    "DecodingConfig",
    "JsonSource",
    "Results",
    "Scorer",
    "SpanSettings",
    "SpanTask",
    "TfdsQuestions",
    "WindowCache",
    "WindowConfig",
    "load_spans",
    "save_spans",
    "settle_spans",
    "validate_and_count",
]
