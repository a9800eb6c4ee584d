"""Exact match, F1 and thresholds of SQuAD equal values computed by hand."""

import random

import pytest

from bert_tf.tasks.question_answering import scoring
from bert_tf.tasks.question_answering.decoding import QuestionPrediction
from bert_tf.tasks.question_answering.examples import Answer, Question
from bert_tf.tasks.question_answering.objective import Answers
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig


@pytest.mark.parametrize(
    ("true", "found", "exact", "f1"),
    [
        ("The Normans", "normans!", 1, 1),
        ("an apple a day", "apple day", 1, 1),
        ("10th century", "the 10th and 11th centuries", 0, 2 * (1 / 4) * (1 / 2) / (3 / 4)),
        ("a b b", "b b b", 0, 2 * (2 / 3) * 1 / (5 / 3)),
        ("state-of-the-art", "stateoftheart", 1, 1),
        ("\u00e9t\u00e9", "ete", 0, 0),
        ("the", "", 1, 0),  # unlike in version 2
    ],
)
def test_two_texts(true, found, exact, f1):
    assert scoring.exact_match(true, found) == exact
    assert scoring.f1(true, found) == pytest.approx(f1)
    assert scoring.f1(found, true) == pytest.approx(f1)


def test_version_1_scores_the_best_of_several_answers():
    scorer = scoring.Scorer()
    scorer.add([Answer("in Paris", 0), Answer("Paris", 3)], "Paris")
    scorer.add([Answer("Rome", 0)], "not Rome")
    assert scorer.results() == {"exact_match": 50, "f1": pytest.approx(250 / 3), "total": 2}


def test_version_2():
    scorer = scoring.Scorer(version_2_with_negative=True)
    # the given answer, the best non-empty answer, the null odds
    scorer.add([Answer("Paris", 0)], "Paris", "Paris", -5.0)
    scorer.add([Answer("Rome", 0)], "", "Rome", 1.0)
    scorer.add([], "", "Oslo", 2.0)
    scorer.add([], "Bern", "Bern", -1.0)
    scorer.add([Answer("the", 0)], "", None, 9.0)  # empty after normalization, so "" is correct
    assert scorer.results() == {
        "exact_match": 60, "f1": 60, "total": 5, "HasAns_exact": pytest.approx(200 / 3),
        "HasAns_f1": pytest.approx(200 / 3), "HasAns_total": 3,
        "NoAns_exact": 50, "NoAns_f1": 50, "NoAns_total": 2,
        # By null odds: 2 + 1 (Paris) - 1 (Bern) + 1 (Rome) - 1 (Oslo) + 1, at best 3 of 5.
        "best_exact": 60, "best_exact_thresh": -5.0, "best_f1": 60, "best_f1_thresh": -5.0,
    }  # fmt: skip


def official_best(rows, scores):
    """Return (score, threshold) of evaluate-v2.0.py for rows of (has answer, text, null odds)."""
    score = best = sum(not has_answer for has_answer, _, _ in rows)
    threshold = 0.0
    for (has_answer, text, odds), own in sorted(
        zip(rows, scores, strict=True), key=lambda x: x[0][2]
    ):
        score += own if has_answer else -bool(text)
        if score > best:
            best, threshold = score, odds
    return 100 * best / len(rows), threshold


@pytest.mark.parametrize("most", [3, 10**9], ids=["ties", "no ties"])
def test_best_thresholds(most):
    """The reported one is the official one, and the saved one has the best F1."""
    rng = random.Random(most)
    for _ in range(300):
        scorer, rows, scores = scoring.Scorer(version_2_with_negative=True), [], []
        for _ in range(rng.randint(1, 8)):
            has_answer, text = rng.random() < 0.5, rng.choice(["x", "y", "x y z", None])
            odds = float(rng.randrange(most))
            scorer.add([Answer("x", 0)] if has_answer else [], "", text, odds)
            rows.append((has_answer, text, odds))
            scores.append({"x": 1, "y": 0, "x y z": 0.5, None: 0}[text])
        results = scorer.results()
        best = results["best_f1"], results["best_f1_thresh"]
        assert best == scorer.best_threshold("f1") == official_best(rows, scores)
        # For each threshold, the sum of F1 if only the questions with odds up to it are answered.
        limits = scorer.threshold(), -1.0, *(row[2] for row in rows)
        sums = [sum(own * (odds <= limit) if has_answer else not text or odds > limit
                    for (has_answer, text, odds), own in zip(rows, scores, strict=True))
                for limit in limits]  # fmt: skip
        assert sums[0] == max(sums)


@pytest.mark.parametrize(
    ("rows", "achieved", "threshold"),
    [
        # Answering nothing is best, but the official threshold of 0 answers both questions.
        ([([], "Bern", -1.0), ([Answer("Paris", 0)], "Rome", -3.0)], 50, -4.0),
        # Two questions have equal odds; the first is right, the second has no answer.
        ([([Answer("Paris", 0)], "Paris", 2.0), ([], "Bern", 2.0)], 50, 1.0),
    ],
)
def test_the_saved_threshold_achieves_the_logged_f1(rows, achieved, threshold, caplog):
    predictions = (
        (Question("", str(i), "?", tuple(answers), not answers), QuestionPrediction([], text, odds))
        for i, (answers, text, odds) in enumerate(rows)
    )
    found = Answers(QuestionAnsweringConfig(version_2_with_negative=True), predictions)
    caplog.set_level("INFO", "bert_tf")
    found.find_threshold()
    assert found.config.null_score_diff_threshold == threshold
    assert found.score().results()["f1"] == achieved
    assert f"{threshold}, with an F1 of {achieved:.2f}" in caplog.text
