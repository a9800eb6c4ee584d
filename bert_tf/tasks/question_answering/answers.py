"""Scores of tokens to answers, as the release finds them, or by character offsets.

Scores come as the best positions of each window and nothing else: for every answer that can be
among the `n_best_size` it is enough to know the best starts and the best ends.
"""

import dataclasses
import math
from typing import NamedTuple

from bert_tf import console
from bert_tf.tasks.question_answering.final_text import final_text

# The odds of "no answer" where there is no answer to compare it with.
NO_ANSWER_AT_ALL = 1_000_000.0

# What the release answers where no span can be an answer.
EMPTY = "empty"


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """How answers are chosen; names and defaults are those of the flags."""

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0


class Scores(NamedTuple):
    """What the model says of a window: positions of the sequence and their logits, best first.

    `null_start` and `null_end` are the logits of [CLS], which stands for "no answer".
    """

    starts: list
    start_logits: list
    ends: list
    end_logits: list
    null_start: float
    null_end: float


class Candidate(NamedTuple):
    """A span that may be the answer; `start` and `end` are characters of the context.

    The text "" is "no answer". `window` None says that it stands for no span.
    """

    window: int | None
    first: int
    last: int
    start_logit: float
    end_logit: float
    text: str = ""

    @property
    def score(self):
        """The sum of its logits."""
        return self.start_logit + self.end_logit


class QuestionPrediction(NamedTuple):
    """The candidates of a question, best first, and what comes of them.

    `best` is the best text that is an answer, None if there is none. `null_odds` is how much "no
    answer" scores above it.
    """

    candidates: list
    best: str | None
    null_odds: float

    def answer(self, choice, threshold=None):
        """The text to answer with; `threshold` is that of `choice` if None."""
        if not choice.version_2_with_negative:
            return self.candidates[0].text
        threshold = choice.null_score_diff_threshold if threshold is None else threshold
        # Without any answer there is none, whatever the threshold.
        return "" if self.best is None or self.null_odds > threshold else self.best

    def n_best(self):
        """The candidates for `nbest_predictions.json`: a list of dicts."""
        probabilities = softmax([candidate.score for candidate in self.candidates])
        return [
            {
                "text": candidate.text,
                "probability": probability,
                "start_logit": candidate.start_logit,
                "end_logit": candidate.end_logit,
            }
            for candidate, probability in zip(self.candidates, probabilities, strict=True)
        ]


class AnswerDecoder:
    """Finds answers, and counts in how many of them words could not be aligned.

    >>> finder = AnswerDecoder(choice, tokenizer, cut.by_offsets)
    >>> finder.find(windows, scores).answer(choice)

    Attributes:
      unaligned: the number of candidates whose exact text the release's way does not find.
    """

    def __init__(self, choice, tokenizer, by_offsets=False, verbose=False):
        """Takes what decides the answers.

        Args:
          choice: a `DecodingConfig`.
          tokenizer: a `FullTokenizer`.
          by_offsets: whether texts are found by characters, or by words as in the release.
          verbose: whether to tell every text not aligned.
        """
        self.choice, self._tokenizer = choice, tokenizer
        self._by_offsets, self._verbose = by_offsets, verbose
        self.unaligned = 0

    def report(self):
        """Says how often the release's way did not find the text, if it happened."""
        if self.unaligned:
            console.info(
                "%d candidates are answered with the whole words that they lie in, because their "
                "own text is not found there; `answer_alignment=offsets` finds it",
                self.unaligned,
            )

    def find(self, windows, scores):
        """Finds the answers to one question.

        Args:
          windows: its list of `features.Window`.
          scores: for each of them `Scores`.

        Returns:
          `QuestionPrediction`.
        """
        choice = self.choice
        spans = [
            span
            for number, (window, row) in enumerate(zip(windows, scores, strict=True))
            for span in self._spans(number, window, row)
        ]
        null = Candidate(None, 0, 0, 0.0, 0.0)
        null_score = NO_ANSWER_AT_ALL
        if choice.version_2_with_negative:
            for row in scores:
                # The window that says the least clearly that there is none decides.
                if row.null_start + row.null_end < null_score:
                    null = Candidate(None, 0, 0, row.null_start, row.null_end)
                    null_score = null.score
            spans.append(null)
        spans.sort(key=lambda span: span.score, reverse=True)
        found = self._distinct(spans, windows)
        if choice.version_2_with_negative and all(candidate.text for candidate in found):
            found.append(null)
        if not found:
            found.append(null._replace(text=EMPTY))
        best = next((candidate for candidate in found if candidate.text), None)
        odds = NO_ANSWER_AT_ALL
        if best is not None:
            # In the release's order: rounding depends on it.
            odds = null_score - best.start_logit - best.end_logit
        return QuestionPrediction(found, best and best.text, odds)

    def _spans(self, number, window, row):
        """Yields the spans of a window that may be answers, without their texts."""
        starts = [
            (start, logit)
            for start, logit in zip(row.starts, row.start_logits, strict=True)
            if window.token_at(start) is not None and window.is_max_context(start)
        ]
        ends = [
            (end, logit)
            for end, logit in zip(row.ends, row.end_logits, strict=True)
            if window.token_at(end) is not None
        ]
        for start, start_logit in starts:
            for end, end_logit in ends:
                if start <= end < start + self.choice.max_answer_length:
                    yield Candidate(number, start, end, start_logit, end_logit)

    def _distinct(self, spans, windows):
        """The best of the spans with their texts; of equal texts only the first."""
        found, seen = [], set()
        for span in spans:
            if len(found) >= self.choice.n_best_size:
                break
            if span.window is not None:
                window = windows[span.window]
                span = span._replace(text=self.text(window, span.first, span.last))
                if span.text in seen:
                    continue
            seen.add(span.text)
            found.append(span)
        return found

    def text(self, window, first, last):
        """The text from one position of a window to another."""
        context, start, end = window.context, window.token_at(first), window.token_at(last)
        if self._by_offsets:
            starts, ends = context.offsets()
            # Characters that change places when marks are put in order may leave it the other way.
            return context.text[min(starts[start : end + 1]) : max(ends[start : end + 1])]
        pieces = self._tokenizer.convert_ids_to_tokens(context.ids[start : end + 1])
        joined = " ".join(pieces).replace(" ##", "").replace("##", "")
        words = context.words.texts[context.word_of[start] : context.word_of[end] + 1]
        text, problem = final_text(
            " ".join(joined.split()), " ".join(words), self._tokenizer.basic_tokenizer
        )
        if problem:
            self.unaligned += 1
            if self._verbose:
                console.info("%s: %r is answered whole: %s", context.text[:30], text, problem)
        return text


def softmax(scores):
    """Probabilities of a list of numbers, added up in its order."""
    top = max(scores)
    shares = [math.exp(score - top) for score in scores]
    total = sum(shares)
    return [share / total for share in shares]
