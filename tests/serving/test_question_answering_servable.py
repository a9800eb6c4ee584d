"""Windows and spans in the graph equal the Python implementation's."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.question_answering import decoding as decoding_module
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering import features
from bert_tf.tasks.question_answering import served as serving
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tokenization import packing_graph
from bert_tf.tokenization.packing import SlidingWindows
from bert_tf.tokenization.packing_graph import Windows
from tests.serving.serving_models import TINY, model_of
from tests.squad_helpers import record_values, window_logits


@pytest.mark.parametrize("stride", [1, 3, 7, 16, 40])
def test_windows_are_those_of_python(stride):
    """Also the windows in which a token has its maximum context."""
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 15, 16, 17, 18, 40, 0, 50]
    sizes = rng.integers(16, 22, len(lengths)).tolist()
    tokens = tf.RaggedTensor.from_row_lengths(tf.range(sum(lengths)), lengths)
    in_graph = Windows(tokens, tf.constant(sizes), stride)
    spans, is_max_context = [], []
    for number, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        windows = SlidingWindows(length, size, stride)
        for index, (first, count) in enumerate(windows.spans):
            spans.append([number, first, count])
            is_max_context += [windows.is_max_context(index, first + i) for i in range(count)]
    found = tf.stack([in_graph.texts, in_graph.first, in_graph.length], 1)
    assert found.numpy().tolist() == spans
    positions = tf.range(max(sizes))[None] + 0 * in_graph.length[:, None]
    is_best = in_graph.is_max_context(tf.range(len(spans)), positions)
    assert is_best[positions < in_graph.length[:, None]].numpy().tolist() == is_max_context


CONTEXT = "a b\u200bc D e\u0301 \u314f f, g h \ud55c i a b j c d e f g a h c b d f a c j i b"
TEXTS = [("a", "   " + CONTEXT), ("b c d e f", "a"), ("c", ""), ("", CONTEXT * 2),
         ("d", " \u00a0 "), ("x", "e\u0301 \u1112\u1161\u11ab")]  # fmt: skip


def scores_of(windows, logits, decoding):
    """Compute `score` of all answers by its definition, over all spans of all windows."""
    spans, null = [], np.inf
    for window, start, end in zip(windows, *logits, strict=bool(windows)):
        null = min(null, start[0] + end[0])
        positions = [i for i in range(len(start)) if window.token_at(i) is not None]
        spans += [
            float(start[i] + end[j])
            for i in positions
            for j in positions
            if window.is_max_context(i) and 0 <= j - i < decoding.max_answer_length
        ]
    if not spans:
        return [0.0]
    best = sorted(spans, reverse=True)[: decoding.n_best_size]
    best += [null] * decoding.version_2_with_negative
    return sorted(np.exp(best) / np.exp(best).sum(), reverse=True)


@pytest.mark.parametrize("version_2", [pytest.param(False, marks=pytest.mark.slow), True])
def test_answers_are_those_of_python(version_2, vocab_file, monkeypatch):
    monkeypatch.setattr(packing_graph, "_WINDOWS_PER_STEP", 3)
    config = QuestionAnsweringConfig(
        TINY, vocab_file, max_seq_length=12, doc_stride=3, max_query_length=4, n_best_size=12,
        max_answer_length=3, answer_alignment="offsets", version_2_with_negative=version_2,
    )  # fmt: skip
    model = model_of("question_answering")
    prepared = prepare_model(model, config, configs.ServingConfig(sequence_buckets=(8,)))
    answer = functools.partial(serving.answer_questions, prepared, config)
    answer = tf.function(answer, autograph=False)
    texts = [*map(tf.constant, zip(*TEXTS, strict=True))]
    results = {name: value.numpy() for name, value in answer(*texts).items()}
    several = answer(*texts, 4)
    names = {"answer", "score", "start", "end"} | ({"null_odds"} if version_2 else set())
    assert results.keys() == names

    tokenizer = bert_tf.FullTokenizer(vocab_file)
    decoder = decoding_module.AnswerDecoder(config)
    count = 0
    for number, (question, context) in enumerate(TEXTS):
        question = reading.Question("", "", question, None, False)
        paragraph = reading.Paragraph("", context, (question,))
        ((_, windows, _),) = features.convert(paragraph, tokenizer, config, False)
        count += len(windows)
        rows = [record_values(window, tokenizer.vocab, 12, 0) for window in windows]
        logits, scores = (), []
        if rows:
            inputs = {name: tf.constant([values[name] for values in rows]) for name in model.input}
            outputs = {name: x.numpy() for name, x in model(inputs).items()}
            logits = outputs["start_logits"], outputs["end_logits"]
            scores = [
                window_logits(*pair, config.n_best_size) for pair in zip(*logits, strict=True)
            ]
        expected = decoder.decode(windows, scores)
        text = expected.answer(config)
        text = "" if text == decoding_module.EMPTY else text
        start, end = results["start"][number], results["end"][number]
        assert results["answer"][number].decode() == text, number
        assert text == (context[start:end] if start >= 0 else "")
        assert (start >= 0) == bool(text)
        if version_2:
            np.testing.assert_allclose(results["null_odds"][number], expected.null_odds, atol=1e-4)
        expected = scores_of(windows, logits, config)
        np.testing.assert_allclose(results["score"][number], expected[0], atol=1e-5)
        assert (expected[0] == 0) == (not context.strip())
        expected = [*expected, 0, 0, 0][:4]
        np.testing.assert_allclose(several["score"][number], expected, atol=1e-5)
        for name, values in results.items():
            assert several[name][number, 0] == values[number]
        columns = (several[name][number].numpy() for name in ("answer", "start", "end"))
        for text, start, end in zip(*columns, strict=True):
            assert text.decode() == (context[start:end] if start >= 0 else "")
    assert count > 20  # more than the graph reads in one step
    # Invalid UTF-8 is ignored; a batch may be empty.
    invalid = b"\xff" + TEXTS[0][1].encode()
    same = answer(tf.constant([b"a\xff"]), tf.constant([invalid]))
    assert same["answer"][0] == results["answer"][0]
    assert same["start"][0] == results["start"][0]
    empty = answer(tf.constant([], tf.string), tf.constant([], tf.string))
    assert empty["answer"].shape == (0,)
