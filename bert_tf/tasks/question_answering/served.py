"""Servable for question answering on strings.

Shapes: B questions, W windows of all contexts, R windows of a selection, S positions of a window,
L tokens of the longest answer (`max_answer_length`), K spans (`n_best_size`), T tokens of all
contexts.
"""

import tensorflow as tf

from bert_tf.serving.exporting import Servable, string_specs
from bert_tf.serving.prepared_model import prepare_model, substrings
from bert_tf.tasks.question_answering.decoding import MAX_NULL_ODDS
from bert_tf.tasks.question_answering.options import NUM_SPECIAL_TOKENS
from bert_tf.tokenization.graph_normalization import row_indices
from bert_tf.tokenization.packing_graph import Segment, Windows, pack

_MIN_SCORE = tf.float32.min


def answer_questions(prepared, config, questions, contexts, top_k=None):
    """Answer questions (B,), truncated to `max_query_length` tokens, on contexts (B,).

    The windows and the rules of spans are as in run_squad.py. But this scores all spans: like the
    release, run_squad.py scores only combinations of the `n_best_size` best starts and ends of
    each window, so it may miss the best span.

    Returns:
      Dict:
        `answer`: string (B,), "" for no answer.
        `start`, `end`: int32 (B,), its character offsets in the context (end exclusive), -1 for
          no answer.
        `score`: float32 (B,), its probability among the `n_best_size` best spans.
        `null_odds`: float32 (B,), only for SQuAD 2.0, the score of "no answer" minus the score
          of the best span.
      With `top_k`, all are (B, `top_k`), best first, with score 0 for missing spans.
    """
    tokenizer = prepared.tokenizer
    ids, starts, ends = tokenizer.tokenize_with_offsets(contexts)
    questions = Segment.of(tokenizer.tokenize(questions)[:, : config.max_query_length])
    max_lengths = config.max_seq_length - questions.length - NUM_SPECIAL_TOKENS
    windows = Windows(ids, max_lengths, config.doc_stride)
    scores, first_tokens, span_lengths, null = _best_spans(prepared, config, questions, windows)
    size = config.n_best_size

    scores, order = _top_spans(scores, windows.counts, size)
    ranks = tf.broadcast_to(tf.range(size), tf.shape(scores))
    has_span = scores[:, :1] > _MIN_SCORE
    null_odds = {}
    if config.version_2_with_negative:
        null = tf.math.segment_min(null, windows.texts)
        null = tf.pad(null, [[0, tf.shape(scores)[0] - tf.size(null)]])[:, None]
        odds = tf.where(scores > _MIN_SCORE, null - scores, MAX_NULL_ODDS)
        null_odds["null_odds"] = odds[:, :1]
        # "No answer" precedes the spans with odds above the threshold.
        is_after = odds > config.null_score_diff_threshold
        ranks = tf.where(is_after, ranks + size + 1, ranks)
        ranks = tf.pad(ranks, [[0, 0], [0, 1]], constant_values=size)
        scores, order = tf.concat([scores, null], 1), tf.pad(order, [[0, 0], [0, 1]])
    probabilities = tf.exp(scores - tf.reduce_logsumexp(scores, 1, keepdims=True))
    chosen = tf.argsort(ranks)[:, : top_k or 1]
    is_answer = (chosen < size) & (tf.gather(scores, chosen, batch_dims=1) > _MIN_SCORE)
    order = tf.gather(order, chosen, batch_dims=1)
    first, span_length = (
        # Missing spans have the first token, so that offsets exist.
        tf.where(is_answer, tf.gather(tf.concat([tf.reshape(x, (-1,)), [0]], 0), order), 0)
        for x in (first_tokens, span_lengths)
    )
    last = first + span_length

    starts, ends = (tf.concat([x.values, [0]], 0) for x in (starts, ends))
    # Unicode normalization may reorder combining marks, so the last token may start first.
    start = tf.minimum(tf.gather(starts, first), tf.gather(starts, last))
    end = tf.maximum(tf.gather(ends, first), tf.gather(ends, last))
    # Without an answer, the offsets are from a different context and may exceed this one.
    begin = tf.where(is_answer, start, 0)
    length = tf.where(is_answer, end - start, 0)
    texts = tf.broadcast_to(tf.range(tf.size(contexts))[:, None], tf.shape(begin))
    spans = (tf.reshape(x, (-1,)) for x in (texts, begin, begin + length))
    outputs = {
        "answer": tf.reshape(substrings(contexts, *spans), tf.shape(begin)),
        "score": tf.where(has_span, tf.gather(probabilities, chosen, batch_dims=1), 0.0),
        "start": tf.where(is_answer, start, -1),
        "end": tf.where(is_answer, end, -1),
        **null_odds,
    }
    if top_k is None:
        return {name: x[:, 0] for name, x in outputs.items()}
    return {name: tf.broadcast_to(x, tf.shape(begin)) for name, x in outputs.items()}


def _best_spans(prepared, config, questions, windows):
    """Return the scores, first tokens and lengths of the best spans (W, K), and null scores."""
    max_length, num_best = config.max_answer_length, config.n_best_size

    def predict_windows(rows):
        question = questions.take(tf.gather(windows.texts, rows))
        context = windows.segment(rows)
        inputs = pack(prepared.tokenizer.vocab, prepared.buckets, question, context)
        position = tf.range(tf.shape(inputs["input_ids"])[1])[None, :]
        position -= question.length[:, None] + 2  # relative to the start of the context
        # Where answers may end, and the token indices among T, each (R, S).
        may_end, token_indices = context.find(position)
        may_start = may_end & windows.is_max_context(rows, position)
        outputs = prepared.call(inputs, of_windows=True)
        start, end = outputs["start_logits"], outputs["end_logits"]
        null = start[:, 0] + end[:, 0]
        start = tf.where(may_start, start, _MIN_SCORE)
        end = tf.where(may_end, end, _MIN_SCORE)
        end = tf.pad(end, [[0, 0], [0, max_length]], constant_values=_MIN_SCORE)
        size = tf.shape(start)[1]
        # (R, S, L): the scores of all spans by start and number of tokens after it.
        spans = tf.stack([start + end[:, i : i + size] for i in range(max_length)], 2)
        spans = tf.maximum(spans, _MIN_SCORE)
        spans = tf.reshape(spans, (-1, size * max_length))
        spans = tf.pad(spans, [[0, 0], [0, num_best]], constant_values=_MIN_SCORE)
        scores, best = tf.math.top_k(spans, num_best)
        positions = tf.minimum(best // max_length, size - 1)
        first = tf.gather(token_indices, positions, batch_dims=1)
        return scores, first, best % max_length, null

    shape = (None, num_best)
    specs = [(tf.float32, shape), (tf.int32, shape), (tf.int32, shape), (tf.float32, (None,))]
    return windows.map(predict_windows, specs)


def _top_spans(scores, counts, size):
    """Return the scores and indices (B, K) of each question's best spans among scores (W, K)."""
    # Dense rows would pad every question to the longest context. Instead, sort all spans together,
    # by score and then, with a stable sort, by question.
    num_spans = counts * size
    questions = row_indices(num_spans)
    scores = tf.reshape(scores, (-1,))
    order = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(questions, order), stable=True))
    firsts = tf.cumsum(num_spans, exclusive=True)[:, None] + tf.range(size)
    is_span = tf.range(size) < num_spans[:, None]
    # A dummy entry keeps the gather from reading an empty tensor.
    indices = tf.gather(tf.concat([order, [0]], 0), tf.where(is_span, firsts, 0))
    indices = tf.where(is_span, indices, tf.size(scores))
    return tf.gather(tf.concat([scores, [_MIN_SCORE]], 0), indices), indices


def question_answering_servable(model, config, serving_config, top_k=None):
    """Return the `Servable` for text (`answer_questions`) and ids (start and end logits)."""
    prepared = prepare_model(model, config, serving_config)

    def add_to_onnx(graph, inputs):
        logits = graph.project(graph.encode(inputs), "cls/squad")
        names = ("start_logits", "end_logits")
        return {name: graph.op("Gather", logits, i, axis=2) for i, name in enumerate(names)}

    return Servable(
        task="question_answering",
        prepared=prepared,
        serve_text=lambda inputs: answer_questions(
            prepared, config, inputs["question"], inputs["context"], top_k
        ),
        serve_ids=prepared.call,
        text_signature=string_specs("question", "context"),
        # A pair has one more [SEP] than a single text, so drop a word.
        sample_text=lambda text: {"question": "", "context": text.partition(" ")[2]},
        example={"question": "Who slept?", "context": "He slept."},
        add_to_onnx=add_to_onnx,
        has_windows=True,
    )
