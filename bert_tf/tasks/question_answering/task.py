"""Train a `BertSpanLabeler`, and match its predictions with questions."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.modeling import BertSpanLabeler
from bert_tf.tasks.question_answering.decoding import AnswerDecoder, WindowLogits
from bert_tf.tasks.question_answering.features import FIRST_UNIQUE_ID, FeatureConverter
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.training.task import Task

# Names of the predictions, in the order of `WindowLogits`' fields.
_WINDOW_LOGITS = ("start", "start_logits", "end", "end_logits", "null_start", "null_end")


class QuestionAnsweringTask(Task):
    """Trains a `BertSpanLabeler` on SQuAD records."""

    loss_names = ("span_loss",)

    def __init__(self, config, dtype=None, extractor=None, mask_padding=False):
        """Create the model; `extractor` is the `AnswerExtractor` that `metrics` uses.

        Unlike the release, `mask_padding` excludes padding from the loss and the best positions.
        """
        self._mask_padding, self.reads_padding = mask_padding, not mask_padding
        self.model = BertSpanLabeler(config.bert_config, dtype=dtype)
        self.metric_names = metric_names(config)
        self._config, self._extractor = config, extractor

    def losses(self, outputs, batch, weights):
        total = 0.0
        for side in ("start", "end"):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch[f"{side}_positions"], logits=self._logits(outputs, batch, side)
            )
            total += tf.reduce_sum(losses)
        return {"span_loss": total / (2.0 * weights["examples"])}

    def predictions(self, outputs, batch):
        """Return the best positions and logits (B, K), [CLS] logits (B,) and unique ids (B,)."""
        values = {"unique_ids": batch["unique_ids"]}
        size = self._config.n_best_size
        # `top_k` needs at least K positions; a batch may have fewer.
        length = batch["input_ids"].shape[1]
        padding = [[0, 0], [0, size if length is None else max(size - length, 0)]]
        for side in ("start", "end"):
            logits = self._logits(outputs, batch, side)
            padded = tf.pad(logits, padding, constant_values=logits.dtype.min)
            # Ties are ordered by position, as in the release.
            best, positions = tf.math.top_k(padded, size)
            values |= {side: positions, f"{side}_logits": best, f"null_{side}": logits[:, 0]}
        return values

    def _logits(self, outputs, batch, side):
        """Return the "start" or "end" logits (B, S), with very low values at masked padding."""
        logits = outputs[f"{side}_logits"]
        if not self._mask_padding:
            return logits
        # Half of the minimum, because softmax subtracts the maximum and could overflow.
        return tf.where(batch["input_mask"] > 0, logits, 0.5 * logits.dtype.min)

    def metrics(self, predictions):
        scorer = Scorer(self._config.version_2_with_negative)
        for question, prediction in self._extractor.answers([predictions]):
            answer = prediction.answer(self._config)
            scorer.add(question.answers or (), answer, prediction.best, prediction.null_odds)
        # Metrics without questions are NaN, which is never the best.
        missing = dict.fromkeys(self.metric_names, float("nan"))
        return missing | {f"eval_{name}": value for name, value in scorer.results().items()}


def metric_names(config):
    names = Scorer(config.version_2_with_negative).names()
    return tuple(f"eval_{name}" for name in names)


class AnswerExtractor:
    """Matches predictions with questions, which it reads again in each call to save memory."""

    def __init__(self, source, tokenizer, config):
        self._source, self._tokenizer, self._config = source, tokenizer, config
        self.decoder = None

    def answers(self, predictions):
        """Yield each (`Question`, `QuestionPrediction`); raise UserError if they do not match."""
        self.decoder = AnswerDecoder(self._config)
        converter = FeatureConverter(self._tokenizer, self._config, is_training=False)
        rows, expected = _rows(predictions), FIRST_UNIQUE_ID
        for paragraph in self._source.paragraphs():
            for question, windows, _ in converter(paragraph):
                logits = []
                for _ in windows:
                    unique_id, row = next(rows, (None, None))
                    if unique_id != expected:
                        self._fail(unique_id, expected)
                    logits.append(row)
                    expected += 1
                yield question, self.decoder.decode(windows, logits)
        for unique_id, _ in rows:
            self._fail(unique_id, None)

    def _fail(self, unique_id, expected):
        raise UserError(
            f"{self._source.name}: found a prediction with the unique id {unique_id}, expected "
            f"{expected}; the file may have changed"
        )


def _rows(predictions):
    """Yield (unique id, `WindowLogits`) by window."""
    for batch in predictions:
        # Python floats: the release adds logits in double precision.
        lists = [np.asarray(batch[name]).tolist() for name in ("unique_ids", *_WINDOW_LOGITS)]
        for unique_id, *logits in zip(*lists, strict=True):
            yield unique_id, WindowLogits(*logits)
