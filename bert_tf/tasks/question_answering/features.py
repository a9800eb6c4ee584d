"""Convert questions and contexts to windows of tokens, and windows to records.

A context that does not fit into a sequence with its question is split into overlapping windows, as
in the release. If a token is in several windows, an answer may start at it only in the window with
the most context around it (its "maximum context"), so that no answer is found twice.
"""

import functools
from typing import NamedTuple

import numpy as np

from bert_tf.data import records, tfrecord
from bert_tf.data.features import Features, tokenizer_fingerprint
from bert_tf.tasks.question_answering.alignment import Context
from bert_tf.tasks.question_answering.options import NUM_SPECIAL_TOKENS
from bert_tf.tokenization.packing import LengthCounter, SlidingWindows, log_truncated, pack_segments

FIRST_UNIQUE_ID = 1_000_000_000

# Characters per chunk of work.
_CHUNK = 100_000


class Window(NamedTuple):
    """A question and one window of its context, `InputFeatures` in the release.

    Only training sets `start_position` and `end_position`; the default is None. In training, they
    are 0 unless the window contains the whole answer.
    """

    context: Context
    windows: SlidingWindows
    query: list
    index: int  # type: ignore[assignment]
    first: int
    length: int
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False

    @property
    def offset(self):
        return len(self.query) + 2

    def token_at(self, position):
        """Return the index of the context token at a position of the sequence, or None."""
        token = position - self.offset
        return self.first + token if 0 <= token < self.length else None

    def is_max_context(self, position):
        """Return whether the token at a position has its maximum context in this window."""
        return self.windows.is_max_context(self.index, self.token_at(position))


def convert(paragraph, tokenizer, config, is_training):
    """Yield (question, windows, length of the question in tokens) for each question.

    In training, the windows have the positions of the answer.
    """
    context = Context(paragraph.context, tokenizer)
    queries = tokenizer.encode_batch(question.text for question in paragraph.questions)
    for question, query in zip(paragraph.questions, queries, strict=True):
        is_impossible = is_training and question.is_impossible
        answer, windows = None, []
        if is_training and not is_impossible:
            answer = context.find_answer_tokens(question.answers[0], config.by_offsets)
        if answer or is_impossible or not is_training:
            query_ids = query[: config.max_query_length]
            start = 0 if is_training else None
            windows = list(_windows(context, query_ids, config, answer, start, is_impossible))
        yield question, windows, len(query)


def _windows(context, query, config, answer, null_position, is_impossible):
    window_size = config.max_seq_length - len(query) - NUM_SPECIAL_TOKENS
    windows = SlidingWindows(len(context.ids), window_size, config.doc_stride)
    for index, (first, length) in enumerate(windows.spans):
        start = end = null_position
        # A window with only a part of the answer is labeled as having no answer.
        if answer and first <= answer[0] and answer[1] < first + length:
            shift = len(query) + 2 - first
            start, end = answer[0] + shift, answer[1] + shift
        yield Window(context, windows, query, index, first, length, start, end, is_impossible)


def make_features(
    paragraphs, tokenizer, config, is_training, num_questions, digest, num_processes=0
):
    """Return the `Features` of `Paragraph`s, whose content has the `digest`."""
    fingerprint = {"data": digest, "questions": num_questions, **tokenizer_fingerprint(tokenizer)}
    names = ["max_seq_length", "doc_stride", "max_query_length"]
    names += ["answer_alignment"] * is_training  # elsewhere, it affects only the decoding
    fingerprint |= {name: getattr(config, name) for name in names}
    limit = config.max_query_length
    return Features(
        records.SQUAD_TRAINING if is_training else records.SQUAD,
        paragraphs,
        functools.partial(
            _convert_chunk, tokenizer=tokenizer, config=config, is_training=is_training
        ),
        fingerprint,
        {"S": config.max_seq_length},
        num_examples=num_questions,
        chunks=_chunks,
        finish=_number,
        num_processes=num_processes,
        log_truncated=functools.partial(
            log_truncated, limit=limit, unit="questions", option="max_query_length"
        ),
    )


def _number(serialized, count):
    """Replace `unique_ids`: it is the last feature of a record, and all ids have the same size."""
    ids = map(tfrecord.varint, range(FIRST_UNIQUE_ID + count, FIRST_UNIQUE_ID + (1 << 29)))
    return [x[: -len(i)] + i for x, i in zip(serialized, ids, strict=False)]


def _chunks(paragraphs):
    chunk, count = [], 0
    for paragraph in paragraphs:
        chunk.append(paragraph)
        count += len(paragraph.context)
        if count >= _CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def _convert_chunk(paragraphs, tokenizer, config, is_training):
    """Return the records and a dict of counts, as the `convert` of `Features` does."""
    all_windows, count = [], 0
    lengths = LengthCounter(config.max_query_length)
    for paragraph in paragraphs:
        for _, windows, query_length in convert(paragraph, tokenizer, config, is_training):
            all_windows += windows
            if windows or not is_training:
                count += 1
                lengths.add(query_length)
    serialized = _serialize(all_windows, tokenizer.vocab, config.max_seq_length, is_training)
    return serialized, {"examples": count, **lengths.counts}


def _serialize(windows, vocab, max_seq_length, is_training):
    if not windows:
        return []
    ids, segments, context = [], [], None
    for window in windows:
        if window.context is not context:
            context, first_id = window.context, len(ids)
            ids += context.ids
        b_start = first_id + window.first
        segments.append((len(ids), len(ids) + len(window.query), b_start, b_start + window.length))
        ids += window.query
    columns = pack_segments(np.array(ids, np.int32), np.array(segments), vocab, max_seq_length)
    columns["unique_ids"] = np.full((len(windows), 1), FIRST_UNIQUE_ID)
    if is_training:
        for name in ("start_position", "end_position", "is_impossible"):
            values = [getattr(window, name) for window in windows]
            columns[name.replace("position", "positions")] = np.array(values)[:, None]
    return tfrecord.examples(columns)
