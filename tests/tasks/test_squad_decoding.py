"""SQuAD logits give the release's answers, n-best lists and null odds."""

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import decoding, features, reading
from tests.squad_helpers import window_logits


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_those_of_the_release(recording, version):
    tokenizer = bert_tf.FullTokenizer(recording.vocab)
    starts, ends = recording.logits
    config = recording.config
    decoder = decoding.AnswerDecoder(config)
    converter = features.FeatureConverter(tokenizer, config, is_training=False)
    source = reading.JsonSource(recording.data, "predict_file")
    row, predictions, n_best, null_odds = 0, {}, {}, {}
    for paragraph in source.paragraphs():
        for question, windows, _ in converter(paragraph):
            rows = range(row, row + len(windows))
            row += len(windows)
            prediction = decoder.decode(
                windows,
                [window_logits(starts[i], ends[i], config.n_best_size) for i in rows],
            )
            predictions[question.id] = prediction.answer(config)
            n_best[question.id] = prediction.n_best()
            null_odds[question.id] = prediction.null_odds
    assert row == len(starts)

    expected = recording.answers
    assert list(predictions.items()) == list(expected["predictions"].items())
    assert list(n_best) == list(expected["nbest_predictions"])
    for name, entries in expected["nbest_predictions"].items():
        assert [x["text"] for x in n_best[name]] == [x["text"] for x in entries]
        for key in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [x[key] for x in n_best[name]], [x[key] for x in entries], atol=1e-6
            )
    if version == "v2":
        assert list(null_odds) == list(expected["null_odds"])
        np.testing.assert_allclose(
            list(null_odds.values()), list(expected["null_odds"].values()), atol=1e-6
        )
