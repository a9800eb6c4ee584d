"""Finding the span of a context that answers a question (BERT paper, sections 4.2 and 4.3)."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.modeling import BertSpanLabeler
from bert_tf.tasks.base import Task
from bert_tf.tasks.question_answering.decoding import AnswerDecoder, WindowLogits
from bert_tf.tasks.question_answering.features import FIRST_UNIQUE_ID, FeatureConverter
from bert_tf.tasks.question_answering.scoring import Scorer


class SpanTask(Task):
    """Trains a `BertSpanLabeler` on records of SQuAD; K is the number of best positions kept."""

    loss_names = ("span_loss",)

    def __init__(self, config, choice, dtype=None, asked=None):
        """Makes the model.

        Args:
          config: a `BertConfig`.
          choice: an `decoding.DecodingConfig`; K is its `n_best_size`, or the number of positions
          if that is
            less.
          dtype: a Keras dtype policy.
          asked: the `AnswerExtractor` whose predictions `metrics` gets; None if it is not called.
        """
        self.model = BertSpanLabeler(config, dtype=dtype)
        self._choice, self._asked = choice, asked

    @property
    def metric_names(self):
        names = Scorer(self._choice.version_2_with_negative).names()
        return tuple(f"eval_{name}" for name in names)

    def loss_weights(self, batch):
        return {"examples": tf.cast(tf.shape(batch["input_ids"])[0], tf.float32)}

    def losses(self, outputs, batch, weights):
        total = 0.0
        for side in ("start", "end"):
            total += tf.reduce_sum(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=batch[f"{side}_positions"], logits=outputs[f"{side}_logits"]
                )
            )
        return {"span_loss": total / (2.0 * weights["examples"])}

    def predictions(self, outputs, batch):
        """The best positions and their logits (B, K), the logits of [CLS] (B,), the ids (B,)."""
        found = {"unique_ids": batch["unique_ids"]}
        for side in ("start", "end"):
            logits = outputs[f"{side}_logits"]
            # Of equal ones the first comes first, as in the release.
            size = min(self._choice.n_best_size, batch["input_ids"].shape[1])
            values, indices = tf.math.top_k(logits, size)
            found |= {side: indices, f"{side}_logits": values, f"null_{side}": logits[:, 0]}
        return found

    def metrics(self, predictions):
        scorer = Scorer(self._choice.version_2_with_negative)
        for question, found in self._asked.answers([predictions]):
            given = found.answer(self._choice)
            scorer.add(question.answers or (), given, found.best, found.null_odds)
        # What the set has no question for is no number, and never the best.
        missing = dict.fromkeys(self.metric_names, float("nan"))
        return missing | {f"eval_{name}": value for name, value in scorer.results().items()}


class AnswerExtractor:
    """The questions of a set, to be put beside what the model says of their windows.

    Nothing of it is kept: texts are read again and cut again, which takes a small part of the time
    that the model needs for them.

    Attributes:
      finder: the `decoding.AnswerDecoder` of the last `answers`.
    """

    def __init__(self, source, tokenizer, cut, choice, verbose=False):
        """Takes what the windows and the answers are made of, as `features` and `decoding` do."""
        self._source, self._tokenizer, self._cut = source, tokenizer, cut
        self._choice, self._verbose, self.finder = choice, verbose, None

    def answers(self, predictions):
        """Finds the answers.

        Args:
          predictions: what `SpanTask` predicts of all windows in order, in batches.

        Yields:
          (`reading.Question`, `decoding.QuestionPrediction`), in the order of the data.

        Raises:
          UserError: if they are not those of these questions.
        """
        self.finder = AnswerDecoder(
            self._choice, by_offsets=self._cut.by_offsets, verbose=self._verbose
        )
        cutter = FeatureConverter(self._tokenizer, self._cut, is_training=False)
        rows, expected = _rows(predictions), FIRST_UNIQUE_ID
        for paragraph in self._source.paragraphs():
            for question, windows, _ in cutter(paragraph):
                scores = []
                for _ in windows:
                    unique_id, row = next(rows, (None, None))
                    if unique_id != expected:
                        self._fail(unique_id, expected)
                    scores.append(row)
                    expected += 1
                yield question, self.finder.decode(windows, scores)
        for unique_id, _ in rows:
            self._fail(unique_id, None)

    def _fail(self, found, expected):
        raise UserError(
            f"{self._source.name}: the windows are not those of its questions (id {expected} was "
            f"expected, found {found}); has it changed?"
        )


def _rows(predictions):
    """Yields (unique id, `WindowLogits`) of each window."""
    for batch in predictions:
        # To Python's own numbers, which are double: the release adds up in those.
        lists = {name: np.asarray(values).tolist() for name, values in batch.items()}
        for i, unique_id in enumerate(lists["unique_ids"]):
            yield (
                unique_id,
                WindowLogits(
                    lists["start"][i],
                    lists["start_logits"][i],
                    lists["end"][i],
                    lists["end_logits"][i],
                    lists["null_start"][i],
                    lists["null_end"][i],
                ),
            )
