"""Exact match and F1 as in the official evaluation scripts of SQuAD 1.1 and 2.0."""

import itertools
import operator
import re
import string
from collections import Counter

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NULL_ODDS = operator.itemgetter("null_odds")


def normalize_answer(text):
    """Lower-case a text and remove punctuation, articles and extra whitespace."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(true, predicted):
    """Return 1 if two texts are equal after normalization, else 0."""
    return int(normalize_answer(true) == normalize_answer(predicted))


def f1(true, predicted, version_2_with_negative=False):
    """Return the word-level F1 of two texts; for two empty texts, 1 in SQuAD 2.0 and 0 in 1.1."""
    true, predicted = normalize_answer(true).split(), normalize_answer(predicted).split()
    if version_2_with_negative and not (true and predicted):
        return int(true == predicted)
    common = sum((Counter(true) & Counter(predicted)).values())
    if not common:
        return 0
    precision, recall = common / len(predicted), common / len(true)
    return 2 * precision * recall / (precision + recall)


class Scorer:
    """Accumulates the scores of predictions."""

    def __init__(self, version_2_with_negative=False):
        self._is_version_2, self._rows = version_2_with_negative, []

    def add(self, answers, given, best=None, null_odds=0.0):
        """Add a question; `given` is "" for "no answer", `best` the best non-empty text or None."""
        texts = [answer.text for answer in answers]
        if self._is_version_2:
            texts = [text for text in texts if normalize_answer(text)] or [""]
        row = {"has_answer": bool(answers), "is_answered": bool(best), "null_odds": null_odds}
        for prefix, text in (("", given), ("best_", best or ""), ("null_", "")):
            row[f"{prefix}exact"] = max(exact_match(true, text) for true in texts)
            row[f"{prefix}f1"] = max(f1(true, text, self._is_version_2) for true in texts)
        self._rows.append(row)

    def names(self):
        """Return the keys of `results`."""
        names = ["exact_match", "f1", "total"]
        if self._is_version_2:
            names += map("_".join, itertools.product(("HasAns", "NoAns"), ("exact", "f1", "total")))
            names += ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
        return names

    def results(self):
        """Return the official metrics in percent, for SQuAD 2.0 also by kind (HasAns, NoAns)."""
        results = _means(self._rows)
        results["exact_match"] = results.pop("exact", 0.0)
        if self._is_version_2:
            for kind, has_answer in (("HasAns", True), ("NoAns", False)):
                rows = [row for row in self._rows if row["has_answer"] == has_answer]
                results.update({f"{kind}_{name}": x for name, x in _means(rows).items()})
            for name in ("exact", "f1"):
                results[f"best_{name}"], results[f"best_{name}_thresh"] = self.best_threshold(name)
        return {name: results[name] for name in self.names() if name in results}

    def threshold(self):
        """Return a null odds threshold that gives the best F1.

        It is halfway between the odds of two questions, or 1 beyond the odds of all, because
        rounding may change the odds.
        """
        rows = sorted((x for x in self._rows if x["is_answered"]), key=_NULL_ODDS)
        odds = np.array([*map(_NULL_ODDS, rows)] or [1.0])
        lower, upper = np.append(odds[0] - 2.0, odds), np.append(odds, odds[-1] + 2.0)
        middle = (lower + upper) / 2.0
        # The sum of F1 if only the questions with odds up to the middle are answered.
        gains = np.cumsum([0.0, *(row["best_f1"] - row["null_f1"] for row in rows)])
        return float(middle[np.argmax(np.where(middle < upper, gains, -np.inf))])

    def best_threshold(self, name="f1"):
        """Return the official best score ("exact" or "f1") in percent and its threshold.

        The threshold may not achieve the score: as in the official script, questions with the same
        odds are added one at a time, and the threshold is 0 if answering no question is best.
        """
        score = sum(not row["has_answer"] for row in self._rows)
        best, threshold = score, 0.0
        for row in sorted(self._rows, key=_NULL_ODDS):
            if row["has_answer"]:
                score += row[f"best_{name}"]
            elif row["is_answered"]:
                score -= 1
            if score > best:
                best, threshold = score, row["null_odds"]
        return 100.0 * best / len(self._rows), threshold


def _means(rows):
    names = ("exact", "f1") if rows else ()
    means = {name: 100.0 * sum(row[name] for row in rows) / len(rows) for name in names}
    return {**means, "total": len(rows)}
