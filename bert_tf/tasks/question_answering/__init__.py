"""Answering questions about a context: SQuAD 1.1 and 2.0 (BERT paper, sections 4.2 and 4.3).

`reading` reads questions, `features` converts them to windows and writes these to records,
`alignment` relates characters, words and tokens, `task` has the model, `decoding` turns its logits
into answers, `scoring` compares them with those of the data, and `data` ties them together for a
run.
"""

from bert_tf.lazy import lazy_names
from bert_tf.task_options import QuestionAnsweringOptions
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig
from bert_tf.tasks.question_answering.data import (
    PredictionWriter,
    QuestionAnsweringData,
    make_model,
    read,
)
from bert_tf.tasks.question_answering.decoding import DecodingConfig
from bert_tf.tasks.question_answering.features import WindowConfig, window_cache
from bert_tf.tasks.question_answering.reading import JsonSource, TfdsQuestions, validate_and_count
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.tasks.question_answering.task import AnswerExtractor, QuestionAnsweringTask
from bert_tf.training.task import TaskSpec

SPEC = TaskSpec(
    name="question_answering",
    script="run_squad.py",
    options_class=QuestionAnsweringOptions,
    config_class=QuestionAnsweringConfig,
    read=read,
    make_model=make_model,
    servable="bert_tf.tasks.question_answering.servable:question_answering_servable",
)

# These need tensorflow-text.
__getattr__, _ = lazy_names(__name__, {"pipeline": (), "servable": ()})

__all__ = [
    "SPEC",
    "AnswerExtractor",
    "DecodingConfig",
    "JsonSource",
    "PredictionWriter",
    "QuestionAnsweringConfig",
    "QuestionAnsweringData",
    "QuestionAnsweringOptions",
    "QuestionAnsweringTask",
    "Scorer",
    "TfdsQuestions",
    "WindowConfig",
    "make_model",
    "read",
    "validate_and_count",
    "window_cache",
]
