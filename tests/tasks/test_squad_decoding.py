"""SQuAD: from logits to the release's answers, n-best lists and null odds."""

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import decoding, features, reading
from tests.squad_helpers import window_logits


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_those_of_the_release(recording, version):
    tokenizer = bert_tf.FullTokenizer(recording.vocab)
    starts, ends = recording.logits
    names = ("n_best_size", "max_answer_length", "version_2_with_negative",
             "null_score_diff_threshold")  # fmt: skip
    decoding_config = decoding.DecodingConfig(**{name: recording.settings[name] for name in names})
    decoder = decoding.AnswerDecoder(decoding_config)
    converter = features.FeatureConverter(tokenizer, recording.window_config, is_training=False)
    source = reading.JsonSource(recording.data, "predict_file")
    row, predictions, n_best, null_odds = 0, {}, {}, {}
    for paragraph in source.paragraphs():
        for question, windows, _ in converter(paragraph):
            rows = range(row, row + len(windows))
            row += len(windows)
            prediction = decoder.decode(
                windows,
                [window_logits(starts[i], ends[i], decoding_config.n_best_size) for i in rows],
            )
            predictions[question.id] = prediction.answer(decoding_config)
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
