"""Decode the logits of windows into answers, as in the release."""

import math
from typing import NamedTuple

from bert_tf import console

# The release's null odds for a question without candidates.
MAX_NULL_ODDS = 1_000_000.0

# The release's answer to a question without candidates.
EMPTY = "empty"


class WindowLogits(NamedTuple):
    """A window's best start and end positions, best first; `null_*` are the logits of [CLS]."""

    starts: list
    start_logits: list
    ends: list
    end_logits: list
    null_start: float
    null_end: float


class Candidate(NamedTuple):
    """A candidate answer; for "no answer", `window` is None and `text` is ""."""

    window: int | None
    start_position: int
    end_position: int
    start_logit: float
    end_logit: float
    text: str = ""

    @property
    def score(self):
        return self.start_logit + self.end_logit


class QuestionPrediction(NamedTuple):
    """The candidates, best first; `null_odds` is the score of "no answer" minus `best`'s score."""

    candidates: list
    best: str | None
    null_odds: float

    def answer(self, config):
        """Return the text of the answer, "" for "no answer"."""
        if not config.version_2_with_negative:
            return self.candidates[0].text
        is_null = self.best is None or self.null_odds > config.null_score_diff_threshold
        return "" if is_null else self.best

    def n_best(self):
        """Return the question's entry in `nbest_predictions.json`, a list of dicts."""
        probabilities = softmax([candidate.score for candidate in self.candidates])
        entries = []
        for x, probability in zip(self.candidates, probabilities, strict=True):
            logits = {"start_logit": x.start_logit, "end_logit": x.end_logit}
            entries.append({"text": x.text, "probability": probability, **logits})
        return entries


class AnswerDecoder:
    """Decodes logits; `num_unaligned` counts candidates that could not be aligned with words."""

    def __init__(self, config, verbose=False):
        """Create a decoder; `verbose` logs each candidate that could not be aligned."""
        self.config, self.verbose, self.num_unaligned = config, verbose, 0

    def decode(self, windows, logits):
        """Return the `QuestionPrediction` for a question's windows and their `WindowLogits`."""
        is_version_2 = self.config.version_2_with_negative
        spans = [
            span
            for index, (window, row) in enumerate(zip(windows, logits, strict=True))
            for span in self._spans(index, window, row)
        ]
        null, null_score = Candidate(None, 0, 0, 0.0, 0.0), MAX_NULL_ODDS
        if is_version_2:
            # As in the release, use the window with the lowest score for "no answer".
            nulls = (Candidate(None, 0, 0, x.null_start, x.null_end) for x in logits)
            null = min(nulls, key=lambda x: x.score, default=null)
            null_score = null.score
            spans.append(null)
        spans.sort(key=lambda span: span.score, reverse=True)
        candidates = self._distinct(spans, windows)
        if is_version_2 and all(candidate.text for candidate in candidates):
            candidates.append(null)
        if not candidates:
            candidates.append(null._replace(text=EMPTY))
        best = next((candidate for candidate in candidates if candidate.text), None)
        null_odds = MAX_NULL_ODDS
        if best is not None:
            # The order of operations in the release, for the same rounding.
            null_odds = null_score - best.start_logit - best.end_logit
        return QuestionPrediction(candidates, best and best.text, null_odds)

    def _spans(self, index, window, row):
        """Yield the valid spans of a window as a `Candidate` without text."""
        ends = zip(row.ends, row.end_logits, strict=True)
        ends = [(end, logit) for end, logit in ends if window.token_at(end) is not None]
        for start, start_logit in zip(row.starts, row.start_logits, strict=True):
            if window.token_at(start) is None or not window.is_max_context(start):
                continue
            for end, end_logit in ends:
                if start <= end < start + self.config.max_answer_length:
                    yield Candidate(index, start, end, start_logit, end_logit)

    def _distinct(self, spans, windows):
        candidates, seen = [], set()
        for span in spans:
            if len(candidates) >= self.config.n_best_size:
                break
            if span.window is not None:
                text = self._text(windows[span.window], span)
                if text in seen:
                    continue
                span = span._replace(text=text)
            seen.add(span.text)
            candidates.append(span)
        return candidates

    def _text(self, window, span):
        context = window.context
        tokens = map(window.token_at, (span.start_position, span.end_position))
        text, problem = context.token_text(*tokens, self.config.by_offsets)
        if problem:
            self.num_unaligned += 1
            if self.verbose:
                message = "%s: the answer was expanded to %r: %s"
                console.info(message, context.text[:30], text, problem)
        return text


def softmax(scores):
    """Return the probabilities of a list of scores, summed in list order as in the release."""
    top = max(scores)
    exponentials = [math.exp(score - top) for score in scores]
    total = sum(exponentials)
    return [value / total for value in exponentials]
