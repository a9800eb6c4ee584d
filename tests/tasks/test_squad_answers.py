"""SQuAD: logits to the release's answers, n-best lists and null odds."""

import json

import numpy as np
import pytest
from test_squad_features import GOLDEN, golden

import bert_tf
from bert_tf.tasks.question_answering import answers, features, reading


@pytest.fixture(scope="module")
def tokenizer(shared):
    return bert_tf.FullTokenizer(str(shared / "data" / "uncased_vocab.txt"))


def best_first(logits, size):
    order = np.argsort(-logits, kind="stable")[:size]
    return order.tolist(), logits[order].tolist()


def scores_of(start_logits, end_logits, size):
    """What the model's step gives of a window, from all of its logits."""
    return answers.Scores(
        *best_first(start_logits, size),
        *best_first(end_logits, size),
        float(start_logits[0]),
        float(end_logits[0]),
    )


def questions(shared, version, tokenizer, cut):
    source = reading.JsonSource(str(shared / GOLDEN[version]), "predict_file")
    for paragraph in source.paragraphs():
        yield from features.FeatureConverter(tokenizer, cut, is_training=False)(paragraph)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_the_release_s(shared, tokenizer, version):
    manifest, cut = golden(shared, version)
    folder = shared / "golden" / "squad" / version
    logits = np.load(folder / "logits.npz")
    starts, ends = logits["start_logits"], logits["end_logits"]
    names = ("n_best_size", "max_answer_length", "version_2_with_negative",
             "null_score_diff_threshold")  # fmt: skip
    choice = answers.DecodingConfig(**{name: manifest[name] for name in names})
    finder = answers.AnswerDecoder(choice, tokenizer)
    row, predictions, n_best, odds = 0, {}, {}, {}
    for question, windows, _ in questions(shared, version, tokenizer, cut):
        rows = range(row, row + len(windows))
        assert [logits["unique_ids"][i] - features.FIRST_ID for i in rows] == list(rows)
        row += len(windows)
        found = finder.find(
            windows, [scores_of(starts[i], ends[i], choice.n_best_size) for i in rows]
        )
        predictions[question.id] = found.answer(choice)
        n_best[question.id] = found.n_best()
        odds[question.id] = found.null_odds
    assert row == len(starts)

    def expected(name):
        return json.loads((folder / f"{name}.json").read_text())

    assert list(predictions.items()) == list(expected("predictions").items())
    wanted = expected("nbest_predictions")
    assert list(n_best) == list(wanted)
    for name, entries in wanted.items():
        assert [x["text"] for x in n_best[name]] == [x["text"] for x in entries]
        for key in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [x[key] for x in n_best[name]], [x[key] for x in entries], atol=1e-6
            )
    if version == "v2":
        wanted = expected("null_odds")
        assert list(odds) == list(wanted)
        np.testing.assert_allclose(list(odds.values()), list(wanted.values()), atol=1e-6)
