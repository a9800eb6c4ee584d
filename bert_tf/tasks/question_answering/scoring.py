"""Exact match and F1 of answers, as the official evaluations of SQuAD 1.1 and 2.0 compute them."""

import itertools
import re
import string
from collections import Counter
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text):
    """The text as it is compared: in lower case, without punctuation and articles."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(true, found):
    """1 if two texts are the same but for case, punctuation and articles, else 0."""
    return int(normalized(true) == normalized(found))


def f1(true, found, version_2_with_negative=False):
    """The F1 of the words of one text against those of another, 0 to 1.

    In SQuAD 2.0 two texts without a word are the same; in 1.1 they have no word in common.
    """
    true, found = normalized(true).split(), normalized(found).split()
    if version_2_with_negative and not (true and found):
        return int(true == found)
    common = sum((Counter(true) & Counter(found)).values())
    if not common:
        return 0
    precision, recall = common / len(found), common / len(true)
    return 2 * precision * recall / (precision + recall)


class _Row(NamedTuple):
    """A question's scores: of the answer given, and of the best that is one."""

    has_answer: bool
    exact: float
    f1: float
    best_exact: float
    best_f1: float
    is_answered: bool
    null_odds: float


class Scorer:
    """Adds up the scores of answers to questions.

    >>> scorer = Scorer(version_2_with_negative=True)
    >>> scorer.add(question.answers, found.answer(choice), found.best, found.null_odds)
    >>> scorer.results()
    """

    def __init__(self, version_2_with_negative=False):
        self._is_2, self._rows = version_2_with_negative, []

    def add(self, answers, given, best=None, null_odds=0.0):
        """Takes in one question.

        Args:
          answers: its `reading.Answer`s, none if it has no answer.
          given: the text that is answered, "" for none.
          best: the text to answer with if one must; None if there is none. For thresholds.
          null_odds: how much "no answer" scores above it.
        """
        texts = [answer.text for answer in answers]
        if self._is_2:
            texts = [text for text in texts if normalized(text)] or [""]
        rows = []
        for text in (given, best or ""):
            rows.append(max(exact_match(true, text) for true in texts))
            rows.append(max(f1(true, text, self._is_2) for true in texts))
        self._rows.append(_Row(bool(answers), *rows, bool(best), null_odds))

    def names(self):
        """The keys of `results`."""
        names = ["exact_match", "f1", "total"]
        if self._is_2:
            names += [f"{part}_{name}" for part in ("HasAns", "NoAns")
                      for name in ("exact", "f1", "total")]  # fmt: skip
            names += ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
        return names

    def results(self):
        """The official figures, in percent; for 2.0 also by kind of question and best threshold.

        The best thresholds are found from the answers that would be given if one had to be. A kind
        that has no question has only its total.
        """
        found = _means(self._rows)
        found["exact_match"] = found.pop("exact", 0.0)
        if self._is_2:
            for part, has_answer in (("HasAns", True), ("NoAns", False)):
                rows = [row for row in self._rows if row.has_answer == has_answer]
                found.update({f"{part}_{name}": x for name, x in _means(rows).items()})
            for name in ("exact", "f1"):
                score, threshold = self.best_threshold(name)
                found[f"best_{name}"] = score
                # The official evaluation says 0 where it is best to answer nothing.
                found[f"best_{name}_thresh"] = 0.0 if threshold is None else threshold
        return {name: found[name] for name in self.names() if name in found}

    def best_threshold(self, name="f1"):
        """The threshold of the null odds, above which nothing is answered, that scores best.

        Of several it is the least. Questions of equal odds are answered together or not at all: the
        official evaluation adds them one by one, so its score may be one that no threshold has.

        Args:
          name: "exact" or "f1".

        Returns:
          (score in percent, threshold), the latter None if it is best to answer nothing.
        """
        score = sum(not row.has_answer for row in self._rows)
        best, threshold = score, None
        rows = sorted(self._rows, key=lambda row: row.null_odds)
        for odds, equals in itertools.groupby(rows, key=lambda row: row.null_odds):
            for row in equals:
                if row.has_answer:
                    score += getattr(row, f"best_{name}")
                elif row.is_answered:
                    score -= 1
            if score > best:
                best, threshold = score, odds
        return 100.0 * best / len(self._rows), threshold

    @property
    def least_odds(self):
        """The least of the null odds: a threshold below them answers nothing."""
        return min(row.null_odds for row in self._rows)


def _means(rows):
    if not rows:
        return {"total": 0}
    return {
        "exact": 100.0 * sum(row.exact for row in rows) / len(rows),
        "f1": 100.0 * sum(row.f1 for row in rows) / len(rows),
        "total": len(rows),
    }
