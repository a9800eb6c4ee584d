"""Windows and spans inside the graph, beside those of Python."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from squad_helpers import record_values, window_logits
from test_modeling import TINY
from test_scripts import WORDS

import bert_tf
from bert_tf.serving import question_answering as answering
from bert_tf.tasks.question_answering import decoding, features, reading, settings

CUTS = [features.WindowConfig(24, stride, 5) for stride in (1, 3, 7, 16, 40)]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"stride{cut.doc_stride}")
def test_windows_are_those_of_python(cut):
    rng = np.random.default_rng(0)
    totals = [0, 1, 2, 15, 16, 17, 18, 40, 0, 50]
    queries = [rng.integers(5, 9, rng.integers(0, 6)).tolist() for _ in totals]
    contexts = [rng.integers(10, 99, total).tolist() for total in totals]
    found = answering._Windows(
        tf.ragged.constant(queries, tf.int32), tf.ragged.constant(contexts, tf.int32), cut
    )
    row, first_token = 0, 0
    for number, (query, ids) in enumerate(zip(queries, contexts, strict=True)):
        windows = features.SlidingWindows(
            len(ids), cut.max_seq_length - len(query) - 3, cut.doc_stride
        )
        assert found.counts[number] == len(windows.spans)
        for index, (first, length) in enumerate(windows.spans):
            assert found.texts[row] == number
            inputs, may_begin, may_end, token = found.inputs(tf.constant([row]), 2, 3, int)
            expected = [2, *query, 3, *ids[first : first + length], 3]
            assert inputs["input_ids"][0].numpy().tolist() == expected
            assert inputs["input_mask"][0].numpy().tolist() == [1] * len(expected)
            segments = [0] * (len(query) + 2) + [1] * (length + 1)
            assert inputs["segment_ids"][0].numpy().tolist() == segments
            for i in range(length):
                place = len(query) + 2 + i
                assert token[0, place] == first_token + first + i
                assert may_end[0, place]
                most = windows.is_max_context(index, first + i)
                assert may_begin[0, place] == most, (number, index, i)
            assert int(tf.reduce_sum(tf.cast(may_end, tf.int32))) == length
            row += 1
        first_token += len(ids)
    assert row == len(found.texts)


CONTEXT = "a b\u200bc D e\u0301 \u314f f, g h \ud55c i a b j c d e f g a h c b d f a c j i b"
TEXTS = [("a", "   " + CONTEXT), ("b c d e f", "a"), ("c", ""), ("", CONTEXT * 2),
         ("d", " \u00a0 "), ("x", "e\u0301 \u1112\u1161\u11ab")]  # fmt: skip


def score(windows, logits, choice):
    """The exported `score` after its definition: of all spans of all windows, one by one."""
    spans, null = [], np.inf
    for window, start, end in zip(windows, *logits, strict=bool(windows)):
        null = min(null, start[0] + end[0])
        places = [i for i in range(len(start)) if window.token_at(i) is not None]
        spans += [
            float(start[i] + end[j])
            for i in places
            for j in places
            if window.is_max_context(i) and 0 <= j - i < choice.max_answer_length
        ]
    if not spans:
        return 0.0
    best = sorted(spans, reverse=True)[: choice.n_best_size]
    chosen = best[0]
    if choice.version_2_with_negative:
        is_answered = null - chosen <= choice.null_score_diff_threshold
        chosen = chosen if is_answered else null
        best.append(null)
    return np.exp(chosen) / np.exp(best).sum()


@pytest.mark.parametrize("version_2", [pytest.param(False, marks=pytest.mark.slow), True])
def test_answers_are_those_of_python(tmp_path, version_2, monkeypatch):
    monkeypatch.setattr(answering, "_WINDOWS_AT_A_TIME", 3)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    cut = features.WindowConfig(12, 3, 4, answer_alignment="offsets")
    choice = decoding.DecodingConfig(12, 3, version_2, 0.0)
    known = settings.SpanSettings(cut, choice, True, TINY, str(tmp_path / "vocab.txt"))
    keras.utils.set_random_seed(1)
    model = bert_tf.BertSpanLabeler(TINY)
    for weight in model.trainable_weights:
        weight.assign_add(tf.random.normal(weight.shape, stddev=0.3))
    servable = bert_tf.serving.answerer(model, known, bert_tf.serving.Options(buckets=(8,)))
    folder = bert_tf.serving.export(servable, str(tmp_path / "export"))
    assert folder == str(tmp_path / "export" / "1")
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    found = serve(
        question=tf.constant([question for question, _ in TEXTS]),
        context=tf.constant([context for _, context in TEXTS]),
    )
    found = {name: value.numpy() for name, value in found.items()}
    assert set(found) == {"answer", "score", "start", "end"} | (
        {"null_odds"} if version_2 else set()
    )

    tokenizer = bert_tf.FullTokenizer(known.vocab_file)
    finder, cutter = (
        decoding.AnswerDecoder(choice, by_offsets=cut.by_offsets),
        features.FeatureConverter(tokenizer, cut, False),
    )
    count = 0
    for number, (question, context) in enumerate(TEXTS):
        asked = reading.Question("", "", question, None, False)
        ((_, windows, _),) = cutter(reading.Paragraph("", context, (asked,)))
        count += len(windows)
        made = [record_values(window, tokenizer.vocab, 12, 0) for window in windows]
        rows = []
        if made:
            inputs = {name: tf.constant([values[name] for values in made]) for name in model.input}
            outputs = {name: x.numpy() for name, x in model(inputs).items()}
            logits = outputs["start_logits"], outputs["end_logits"]
            rows = [window_logits(*pair, choice.n_best_size) for pair in zip(*logits, strict=True)]
        expected = finder.decode(windows, rows)
        text = expected.answer(choice)
        text = "" if text == decoding.EMPTY else text
        start, end = found["start"][number], found["end"][number]
        assert found["answer"][number].decode() == text, number
        assert text == (context[start:end] if start >= 0 else "")
        assert (start >= 0) == bool(text)
        if version_2:
            np.testing.assert_allclose(found["null_odds"][number], expected.null_odds, atol=1e-4)
        expected = score(windows, logits if made else (), choice)
        np.testing.assert_allclose(found["score"][number], expected, atol=1e-5)
        assert (expected == 0) == (not context.strip())
    assert count > 20  # more than are read at a time
    with pytest.raises(bert_tf.UserError, match=r"--version: .* has a version 1 already"):
        bert_tf.serving.export(servable, str(tmp_path / "export"), version=1)
    # Bytes that are not UTF-8 do not count; a batch may be empty.
    odd = serve(
        question=tf.constant([b"a\xff"]), context=tf.constant([b"\xff" + TEXTS[0][1].encode()])
    )
    assert odd["answer"][0] == found["answer"][0]
    assert odd["start"][0] == found["start"][0]
    none = serve(question=tf.constant([], tf.string), context=tf.constant([], tf.string))
    assert none["answer"].shape == (0,)
