"""SQuAD: from logits to the release's answers, n-best lists and null odds."""

import json

import numpy as np
import pytest
from squad_helpers import GOLDEN_DATA, golden, window_logits

import bert_tf
from bert_tf.tasks.question_answering import decoding, features, reading


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_those_of_the_release(shared, version):
    tokenizer = bert_tf.FullTokenizer(str(shared / "data" / "uncased_vocab.txt"))
    manifest, window_config = golden(shared, version)
    folder = shared / "golden" / "squad" / version
    logits = np.load(folder / "logits.npz")
    starts, ends = logits["start_logits"], logits["end_logits"]
    names = ("n_best_size", "max_answer_length", "version_2_with_negative",
             "null_score_diff_threshold")  # fmt: skip
    decoding_config = decoding.DecodingConfig(**{name: manifest[name] for name in names})
    decoder = decoding.AnswerDecoder(decoding_config)
    converter = features.FeatureConverter(tokenizer, window_config, is_training=False)
    source = reading.JsonSource(str(shared / GOLDEN_DATA[version]), "predict_file")
    row, predictions, n_best, null_odds = 0, {}, {}, {}
    for paragraph in source.paragraphs():
        for question, windows, _ in converter(paragraph):
            rows = range(row, row + len(windows))
            assert [logits["unique_ids"][i] - features.FIRST_UNIQUE_ID for i in rows] == list(rows)
            row += len(windows)
            prediction = decoder.decode(
                windows,
                [window_logits(starts[i], ends[i], decoding_config.n_best_size) for i in rows],
            )
            predictions[question.id] = prediction.answer(decoding_config)
            n_best[question.id] = prediction.n_best()
            null_odds[question.id] = prediction.null_odds
    assert row == len(starts)

    def expected(name):
        return json.loads((folder / f"{name}.json").read_text())

    assert list(predictions.items()) == list(expected("predictions").items())
    assert list(n_best) == list(expected("nbest_predictions"))
    for name, entries in expected("nbest_predictions").items():
        assert [x["text"] for x in n_best[name]] == [x["text"] for x in entries]
        for key in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [x[key] for x in n_best[name]], [x[key] for x in entries], atol=1e-6
            )
    if version == "v2":
        assert list(null_odds) == list(expected("null_odds"))
        np.testing.assert_allclose(
            list(null_odds.values()), list(expected("null_odds").values()), atol=1e-6
        )
