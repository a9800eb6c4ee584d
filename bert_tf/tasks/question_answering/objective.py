"""Question answering: losses, answers and metrics."""

import dataclasses
import itertools
import json
import os

import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.question_answering.decoding import AnswerDecoder, WindowLogits
from bert_tf.tasks.question_answering.features import FIRST_UNIQUE_ID, convert
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.training.objective import Objective, argmax

_LOWEST = float(np.finfo("float32").min)


class QuestionAnsweringObjective(Objective):
    """Trains a `BertSpanLabeler` on SQuAD records."""

    loss_names = ("span_loss",)
    fit_metric_names = ("start_accuracy", "end_accuracy")

    def __init__(self, model, config, extract=None, mask_padding=False):
        """Create the objective; `extract` is a function from predictions to answers, for `metrics`.

        Unlike the release, `mask_padding` excludes padding from the loss and the best positions.
        """
        self._mask_padding, self.reads_padding = mask_padding, not mask_padding
        self.model = model
        names = Scorer(config.version_2_with_negative).names()
        self.metric_names = tuple(f"eval_{name}" for name in names)
        self._config, self._extract = config, extract

    def losses(self, outputs, batch, denominators, training=True):
        total = 0.0
        for side in ("start", "end"):
            labels, logits = batch[f"{side}_positions"], self._logits(outputs, batch, side)
            losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            total += ops.sum(losses * self.example_weights(batch))
        return {"span_loss": total / (2.0 * denominators["examples"])}

    def fit_metrics(self, outputs, batch):
        metrics = {}
        for side in ("start", "end"):
            predicted = argmax(self._logits(outputs, batch, side))
            is_correct = ops.equal(predicted, ops.cast(batch[f"{side}_positions"], "int32"))
            metrics[f"{side}_accuracy"] = is_correct, self._is_real(batch)
        return metrics

    def keras_targets(self, batch, denominators):
        factors = self.example_weights(batch) / (2.0 * denominators["examples"])
        targets = {f"{side}_logits": batch[f"{side}_positions"] for side in ("start", "end")}
        return targets, dict.fromkeys(targets, factors)

    def predictions(self, outputs, batch):
        """Return the best positions and logits (B, K), [CLS] logits (B,) and unique ids (B,)."""
        values = {"unique_ids": batch["unique_ids"]}
        size = self._config.n_best_size
        # `top_k` needs at least K positions; a batch may have fewer.
        length = batch["input_ids"].shape[1]
        padding = ((0, 0), (0, size if length is None else max(size - length, 0)))
        for side in ("start", "end"):
            logits = self._logits(outputs, batch, side)
            # Ties are ordered by position, as in the release.
            best, positions = ops.top_k(ops.pad(logits, padding, constant_values=_LOWEST), size)
            values |= {side: positions, f"{side}_logits": best, f"null_{side}": logits[:, 0]}
        return values

    def _logits(self, outputs, batch, side):
        """Return the "start" or "end" logits (B, S), with very low values at masked padding."""
        logits = outputs[f"{side}_logits"]
        if not self._mask_padding:
            return logits
        # Half of the minimum, because softmax subtracts the maximum and could overflow.
        return ops.where(batch["input_mask"] > 0, logits, 0.5 * _LOWEST)

    def metrics(self, predictions):
        scores = Answers(self._config, self._extract([predictions])).score().results()
        # Metrics without questions are NaN, which is never the best.
        missing = dict.fromkeys(self.metric_names, float("nan"))
        return missing | {f"eval_{name}": value for name, value in scores.items()}


def _rows(predictions):
    """Yield (unique id, `WindowLogits`) by window."""
    for batch in predictions:
        # Python floats: the release adds logits in double precision.
        names = ("start", "start_logits", "end", "end_logits", "null_start", "null_end")
        lists = [np.asarray(batch[name]).tolist() for name in ("unique_ids", *names)]
        for unique_id, *logits in zip(*lists, strict=True):
            yield unique_id, WindowLogits(*logits)


PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


def extract_answers(predictions, source, tokenizer, config, verbose=False):
    """Yield each (`Question`, `QuestionPrediction`); raise UserError if they do not match.

    The questions are read again, to save memory.
    """

    def check(ids, expected):
        if ids != expected:
            found = f"found predictions with the unique ids {ids}, expected {expected}"
            raise UserError(f"{source.name}: {found}; the file may have changed")

    decoder = AnswerDecoder(config, verbose)
    rows = _rows(predictions)
    count = itertools.count(FIRST_UNIQUE_ID)
    for paragraph in source.paragraphs():
        for question, windows, _ in convert(paragraph, tokenizer, config, is_training=False):
            logits_by_id = dict(itertools.islice(rows, len(windows)))
            check([*logits_by_id], [*itertools.islice(count, len(windows))])
            yield question, decoder.decode(windows, logits_by_id.values())
    check([x for x, _ in rows], [])
    if decoder.num_unaligned:
        message = "%d candidates could not be aligned and were expanded to whole words; %s"
        advice = "`answer_alignment=offsets` gives the exact text"
        console.info(message, decoder.num_unaligned, advice)


class Answers:
    """The predictions for all questions of a split."""

    def __init__(self, config, predictions, keeps_all=False):
        """Collect `predictions`, pairs of a `Question` and its `QuestionPrediction`.

        `write` needs all candidates, `keeps_all`; the rest needs only the first.
        """
        self.config = config
        self._pairs = {
            question.id: (question, x if keeps_all else x._replace(candidates=x.candidates[:1]))
            for question, x in predictions
        }

    def score(self):
        scorer = Scorer(self.config.version_2_with_negative)
        for question, prediction in self._pairs.values():
            answer = prediction.answer(self.config)
            scorer.add(question.answers or (), answer, prediction.best, prediction.null_odds)
        return scorer

    def find_threshold(self):
        """Set the threshold with the best F1 in `config`, and log it."""
        threshold = self.score().threshold()
        self.config = dataclasses.replace(self.config, null_score_diff_threshold=threshold)
        message = "best null_score_diff_threshold on this data: %r, with an F1 of %.2f"
        console.info(message, threshold, self.score().results()["f1"])

    def write(self, folder):
        """Write the files of the release, indented as there; they appear together."""
        predictions = {name: x for name, (_, x) in self._pairs.items()}
        values = {
            N_BEST: {name: x.n_best() for name, x in predictions.items()},
            PREDICTIONS: {name: x.answer(self.config) for name, x in predictions.items()},
        }
        if self.config.version_2_with_negative:
            values[NULL_ODDS] = {name: x.null_odds for name, x in predictions.items()}
        texts = {name: json.dumps(x, indent=4) + "\n" for name, x in values.items()}
        files.write_texts({os.path.join(folder, name): text for name, text in texts.items()})
        console.info("wrote the answers to %d questions to %s", len(predictions), folder)
