"""Classification tasks and batches for several test modules."""

import tensorflow as tf

from bert_tf.data import records
from bert_tf.modeling import BertClassifier, BertSpanLabeler, BertTokenClassifier
from bert_tf.tasks.classification.objective import OBJECTIVES
from bert_tf.tasks.question_answering.objective import QuestionAnsweringObjective
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tasks.token_classification.objective import TokenClassificationObjective
from bert_tf.tasks.token_classification.options import Tags, TokenClassificationConfig
from tests.common import WITHOUT_DROPOUT, tiny

# Like TINY, but without dropout and quicker to build and trace.
SMALL = {"num_hidden_layers": 1, **WITHOUT_DROPOUT}


def small_config(**changes):
    """Return a `BertConfig` of one layer without dropout."""
    return tiny(**{**SMALL, **changes})


def classification_task(
    config, task_type="classification", dtype=None, class_weights=None, **options
):
    """Return an objective of `OBJECTIVES` with three labels."""
    model = BertClassifier(config, 1 if task_type == "regression" else 3, dtype, **options)
    return OBJECTIVES[task_type](model, class_weights=class_weights)


def span_task(config):
    """Return a `QuestionAnsweringObjective`."""
    options = QuestionAnsweringConfig(config, n_best_size=3)
    return QuestionAnsweringObjective(BertSpanLabeler(config), options)


def tag_task(config):
    """Return a `TokenClassificationObjective` with three tags."""
    tags = Tags(("O", "B-X", "I-X"), "iob2", "iob2")
    options = TokenClassificationConfig(config, "", max_seq_length=8, tags=tags)
    return TokenClassificationObjective(BertTokenClassifier(config, 3), options)


def first_batch(features, length_multiple=None):
    """Return the records of `Features` as one batch."""
    serialized = tf.constant(features.in_memory("features"))
    schema, lengths, _ = features.record_format(small_config()).values()
    batch = records.parse(serialized, schema, lengths)
    return records.trim(batch, schema, length_multiple) if length_multiple else batch
