"""Convert questions and contexts to windows of tokens, and windows to records.

A context that does not fit into a sequence with its question is split into overlapping windows, as
in the release. If a token is in several windows, an answer may start at it only in the window with
the most context around it (its "maximum context"), so that no answer is found twice.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

from bert_tf.data import records, tfrecord
from bert_tf.data.features import Features, tokenizer_fingerprint
from bert_tf.tasks.question_answering.alignment import Context, WordIds
from bert_tf.tasks.question_answering.options import NUM_SPECIAL_TOKENS
from bert_tf.tokenization.packing import (
    LengthCounter,
    SlidingWindows,
    log_truncated,
    pack_segments,
)

FIRST_UNIQUE_ID = 1_000_000_000

# Characters per chunk of work.
_CHUNK = 100_000


class Window(NamedTuple):
    """A question and one window of its context, `InputFeatures` in the release.

    `start_position` and `end_position` are None outside of training. They are 0 unless the window
    contains the whole answer.
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


class FeatureConverter:
    """Converts the questions about a paragraph to windows, with answer positions in training."""

    def __init__(self, tokenizer, config, is_training):
        self._tokenizer, self._config = tokenizer, config
        self._is_training = is_training
        self._word_ids = WordIds(tokenizer)

    def __call__(self, paragraph):
        """Yield (question, windows, length of the question in tokens) for each question."""
        context = Context(paragraph.context, self._tokenizer, self._word_ids)
        max_query_length = self._config.max_query_length
        queries = self._tokenizer.encode_batch(question.text for question in paragraph.questions)
        for question, query in zip(paragraph.questions, queries, strict=True):
            windows = list(self._windows(question, query[:max_query_length], context))
            yield question, windows, len(query)

    def _windows(self, question, query, context):
        config, is_training = self._config, self._is_training
        window_size = config.max_seq_length - len(query) - NUM_SPECIAL_TOKENS
        windows = context.windows(window_size, config.doc_stride)
        answer = None
        if is_training and not question.is_impossible:
            answer = context.find_answer_tokens(question.answers[0], config.by_offsets)
            if answer is None:
                return
        is_impossible = is_training and question.is_impossible
        for index, (first, length) in enumerate(windows.spans):
            start = end = 0 if is_training else None
            # A window with only a part of the answer is labeled as having no answer.
            if answer and first <= answer[0] and answer[1] < first + length:
                shift = len(query) + 2 - first
                start, end = answer[0] + shift, answer[1] + shift
            yield Window(context, windows, query, index, first, length, start, end, is_impossible)


def make_features(paragraphs, tokenizer, config, is_training, num_questions, digest):
    """Return the `Features` of `Paragraph`s, whose content has the `digest`."""
    fingerprint = {"data": digest, "questions": num_questions, **tokenizer_fingerprint(tokenizer)}
    fingerprint |= config.window_options
    if not is_training:
        del fingerprint["answer_alignment"]  # affects the decoding, but not the windows
    limit = config.max_query_length
    return Features(
        records.SQUAD_TRAINING if is_training else records.SQUAD,
        paragraphs,
        _ConvertChunk(tokenizer, config, is_training),
        fingerprint,
        {"S": config.max_seq_length},
        num_examples=num_questions,
        chunks=_chunks,
        finish=_number,
        num_processes=config.num_processes,
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


class _ConvertChunk:
    """Converts lists of paragraphs to serialized records."""

    def __init__(self, tokenizer, config, is_training):
        self._vocab, self._config = tokenizer.vocab, config
        self._is_training = is_training
        self._converter = FeatureConverter(tokenizer, config, is_training)

    def __call__(self, paragraphs):
        """Return the records and a dict of counts, as `data.features.Convert` does."""
        all_windows, count = [], 0
        lengths = LengthCounter(self._config.max_query_length)
        for _, windows, query_length in itertools.chain.from_iterable(
            map(self._converter, paragraphs)
        ):
            all_windows += windows
            if windows or not self._is_training:
                count += 1
                lengths.add(query_length)
        return self._serialize(all_windows), {"examples": count, **lengths.counts}

    def _serialize(self, windows):
        if not windows:
            return []
        ids, segments, context = [], [], None
        for window in windows:
            if window.context is not context:
                context, first_id = window.context, len(ids)
                ids += context.ids
            b_start = first_id + window.first
            segments.append(
                (len(ids), len(ids) + len(window.query), b_start, b_start + window.length)
            )
            ids += window.query
        ids, segments = np.array(ids, np.int32), np.array(segments)
        columns = pack_segments(ids, segments, self._vocab, self._config.max_seq_length)
        columns["unique_ids"] = np.full((len(windows), 1), FIRST_UNIQUE_ID)
        if self._is_training:
            for name in ("start_position", "end_position", "is_impossible"):
                values = [getattr(window, name) for window in windows]
                columns[name.replace("position", "positions")] = np.array(values)[:, None]
        return tfrecord.examples(columns)
