"""Features of questions and contexts: windows of tokens, and the record files that hold them.

A context that does not fit into a sequence together with its question is split into overlapping
windows, as in the release. A token that is in several windows has its "maximum context" in one of
them, and only there may an answer start. This avoids duplicate answers.
"""

import itertools
from typing import NamedTuple

import tensorflow as tf

from bert_tf import console
from bert_tf.data import records, tfrecord
from bert_tf.data.feature_cache import FeatureCache, digest, tokenizer_fingerprint
from bert_tf.data.rows import BadRows
from bert_tf.errors import UserError
from bert_tf.io import files, processes
from bert_tf.tasks.question_answering.alignment import Context, WordIds
from bert_tf.tasks.question_answering.config import NUM_SPECIAL_TOKENS
from bert_tf.tokenization.windows import SlidingWindows

CLS, SEP = "[CLS]", "[SEP]"
FIRST_UNIQUE_ID = 1_000_000_000

# Bump when the same data give different features.
_VERSION = 1

# Characters that a process converts at a time, and the number of questions from which several
# processes are faster than one.
_CHUNK = 100_000
_MIN_QUESTIONS_FOR_PROCESSES = 5_000


class Window(NamedTuple):
    """A question and one window of its context, `InputFeatures` in the release.

    `query` has the token ids of the question, truncated. The window is number `index` of `windows`
    and has `length` tokens of the context, starting with token `first`. In training
    `start_position` and `end_position` are the first and last position of the answer in the
    sequence, 0 if the window does not contain the whole answer; otherwise they are None.
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
        """The position in the sequence of the window's first token."""
        return len(self.query) + 2

    def token_at(self, position):
        """Return the token of the context at a position of the sequence, None if there is none."""
        token = position - self.offset
        return self.first + token if 0 <= token < self.length else None

    def is_max_context(self, position):
        """Return whether the token at a position has its maximum context in this window."""
        return self.windows.is_max_context(self.index, self.token_at(position))


class FeatureConverter:
    """Converts the questions about a paragraph to windows.

    >>> converter = FeatureConverter(tokenizer, config, is_training=True)
    >>> for question, windows, is_truncated in converter(paragraph):
    ...     print(question.id, len(windows))
    """

    def __init__(self, tokenizer, config, is_training):
        """Create a converter; `is_training` says whether to locate the answers."""
        self._tokenizer, self._config = tokenizer, config
        self._is_training = is_training
        self._word_ids = WordIds(tokenizer)

    def __call__(self, paragraph):
        """Yield (question, list of `Window`, whether it was truncated) of a `reading.Paragraph`.

        The list is empty if the context has no tokens, or if in training the answer is not in it.
        """
        context = Context(paragraph.context, self._tokenizer, self._word_ids)
        max_query_length = self._config.max_query_length
        queries = self._tokenizer.encode_batch(question.text for question in paragraph.questions)
        for question, query in zip(paragraph.questions, queries, strict=True):
            windows = list(self._windows(question, query[:max_query_length], context))
            yield question, windows, len(query) > max_query_length

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
            # A window with a part of the answer is labelled as one without an answer.
            if answer and first <= answer[0] and answer[1] < first + length:
                shift = len(query) + 2 - first
                start, end = answer[0] + shift, answer[1] + shift
            yield Window(context, windows, query, index, first, length, start, end, is_impossible)


def window_cache(path, source, summary, tokenizer, config, is_training, num_processes=0):
    """Return the `FeatureCache` of the windows of a source of questions.

    Args:
      path: The TFRecord file.
      source: A `reading.JsonSource` or `reading.TfdsQuestions`.
      summary: The `reading.DatasetSummary` of the source.
      tokenizer: A `FullTokenizer`.
      config: A resolved `QuestionAnsweringConfig`.
      is_training: Whether to write the positions of the answers too.
      num_processes: Number of processes; 0 for one per core if there are many questions.
    """
    schema = records.SQUAD_TRAINING if is_training else records.SQUAD
    fingerprint = {
        "data": summary.digest,
        "questions": summary.questions,
        **tokenizer_fingerprint(tokenizer),
        **config.window_options,
        "schema": digest(schema.items()),
        "version": _VERSION,
    }
    if not is_training:
        del fingerprint["answer_alignment"]  # It changes the decoding but not the windows.
    arguments = (source, tokenizer, config, is_training, num_processes, summary.questions)
    return FeatureCache(path, fingerprint, lambda: write_windows(path, *arguments))


def write_windows(
    path, source, tokenizer, config, is_training, num_processes=0, num_questions=None
):
    """Write the windows of all questions to a TFRecord file, in the order of the source.

    The file appears complete or not at all. The arguments are those of `window_cache`, and the
    number of questions if known. Returns a dict with the number of `windows`, which must not be 0.
    """
    if not num_processes:
        is_large = (num_questions or 0) >= _MIN_QUESTIONS_FOR_PROCESSES
        num_processes = processes.cores() if is_large else 1
    converter = _ShardConverter(source.read_shard, tokenizer, config, is_training)
    chunks = _chunks(source.shards())
    results = processes.shared_map(converter, chunks, num_processes)
    ticker = console.Ticker(f"writing {path}", "questions", total=num_questions)
    truncated, count = BadRows(skip=True), 0
    with files.replacing(path) as (temporary,), tf.io.TFRecordWriter(temporary) as writer:
        for serialized, questions, truncated_questions in results:
            for record in serialized:
                writer.write(record + tfrecord.varint(FIRST_UNIQUE_ID + count))
                count += 1
            for where in truncated_questions:
                truncated(where)
            ticker.add(questions)
        if not count:
            raise UserError(f"{source.name}: all contexts are empty, so there are no windows")
    ticker.done()
    truncated.report(f"questions truncated to `max_query_length={config.max_query_length}` tokens")
    console.info("%s: %d windows", path, count)
    return {"windows": count}


def _chunks(shards):
    """Yield lists of shards with about the same number of characters each."""
    chunk, count = [], 0
    for shard, characters in shards:
        chunk.append(shard)
        count += characters
        if count >= _CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


class _ShardConverter:
    """Converts shards of a source to serialized records."""

    def __init__(self, read_shard, tokenizer, config, is_training):
        self._read_shard, self._is_training = read_shard, is_training
        self._converter = FeatureConverter(tokenizer, config, is_training)
        self._encoder = _RecordEncoder(tokenizer.vocab, config.max_seq_length)

    def __call__(self, shards):
        """Return (records without their ids, number of questions, places of truncated ones)."""
        serialized, count, truncated = [], 0, []
        for paragraph in itertools.chain.from_iterable(map(self._read_shard, shards)):
            for question, windows, is_truncated in self._converter(paragraph):
                serialized += map(self._encoder.encode, windows)
                is_used = bool(windows) or not self._is_training
                count += is_used
                if is_truncated and is_used:
                    truncated.append(question.where)
        return serialized, count, truncated


class _RecordEncoder:
    """Serializes windows to the bytes of `records.serialize`, without the id at the end.

    The windows of one context share most of their bytes, which are encoded once per context.
    """

    def __init__(self, vocab, max_seq_length):
        self._varints = {index: tfrecord.varint(index) for index in vocab.values()}
        self._cls, self._sep = self._varints[vocab[CLS]], self._varints[vocab[SEP]]
        self._size = max_seq_length
        self._context, self._bytes, self._starts = None, b"", []

    def encode(self, window):
        """Return the bytes of a window's record, up to the value of `unique_ids`."""
        if window.context is not self._context:
            self._encode_context(window.context)
        first, query = window.first, window.query
        context = self._bytes[self._starts[first] : self._starts[first + window.length]]
        question = b"".join([self._varints[index] for index in query])
        num_first, num_second = len(query) + 2, window.length + 1
        padding = bytes(self._size - num_first - num_second)
        ids = b"".join([self._cls, question, self._sep, context, self._sep, padding])
        mask = b"\x01" * (num_first + num_second) + padding
        segments = bytes(num_first) + b"\x01" * num_second + padding
        # Sorted by name, as in a deterministic serialization.
        features = [(b"input_ids", ids), (b"input_mask", mask), (b"segment_ids", segments)]
        if window.start_position is not None:
            small_varint = tfrecord.small_varint
            features.insert(0, (b"end_positions", small_varint(window.end_position)))
            features.insert(3, (b"is_impossible", small_varint(int(window.is_impossible))))
            features.append((b"start_positions", small_varint(window.start_position)))
        # The id is the last feature, and all ids from `FIRST_UNIQUE_ID` on have the same length.
        features.append((b"unique_ids", tfrecord.varint(FIRST_UNIQUE_ID)))
        example = tfrecord.example([tfrecord.int64_feature(*feature) for feature in features])
        return example[: -len(tfrecord.varint(FIRST_UNIQUE_ID))]

    def _encode_context(self, context):
        varints = [self._varints[index] for index in context.ids]
        self._context, self._bytes = context, b"".join(varints)
        self._starts = list(itertools.accumulate(map(len, varints), initial=0))
