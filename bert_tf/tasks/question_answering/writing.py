"""Windows to TFRecords: by several processes, in the order of the data, used again while they fit.

Windows of one context share most of their bytes, so records are put together from parts that are
serialized once; they are those of `records.serialize`.
"""

import dataclasses
import itertools

import tensorflow as tf

from bert_tf import console, files, processes
from bert_tf.data import records, tfrecord
from bert_tf.errors import UserError
from bert_tf.tasks.feature_cache import FeatureCache, digest, tokenizer_fingerprint
from bert_tf.tasks.question_answering.features import CLS, FIRST_ID, SEP, FeatureConverter
from bert_tf.tasks.rows import BadRows

# To be raised when the same data make other features.
_VERSION = 1

# Characters to work through at a time, and from how many questions on it is worth to share them.
_CHUNK = 100_000
_MANY = 5_000


def window_cache(path, source, summary, tokenizer, window_config, is_training, num_processes=0):
    """Return the `FeatureCache` of the windows of a split.

    Args:
      path: the file.
      source: a `reading.JsonSource` or another source of questions.
      summary: the result of `reading.survey`.
      tokenizer: a `FullTokenizer`.
      window_config: a `WindowConfig`.
      is_training: whether to write the answers too.
      num_processes: number of processes; 0 for one a core where there are many questions.
    """
    schema = records.SQUAD_TRAINING if is_training else records.SQUAD
    fingerprint = {
        "data": summary.digest,
        "questions": summary.questions,
        **tokenizer_fingerprint(tokenizer),
        **dataclasses.asdict(window_config),
        "schema": digest(schema.items()),
        "version": _VERSION,
    }
    if not is_training:
        # It changes the answers, but not the windows.
        del fingerprint["answer_alignment"]
    return FeatureCache(
        path,
        fingerprint,
        lambda: write_windows(
            path, source, tokenizer, window_config, is_training, num_processes, summary.questions
        ),
    )


def write_windows(path, source, tokenizer, cut, is_training, num_processes=0, total=None):
    """Writes the windows of all questions of a set, whole or not at all.

    Args: those of `WindowCache`; `total` is the number of questions, if known.

    Returns:
      Dict with the number of `windows`.
    """
    if not num_processes:
        num_processes = processes.cores() if (total or 0) >= _MANY else 1
    maker = _Maker(source.opened, tokenizer, cut, is_training)
    chunks = _chunks(source.parts())
    made = processes.shared_map(maker, chunks, num_processes)
    ticker = console.Ticker(f"writing {path}", "questions", total=total)
    too_long, count = BadRows(skip=True), 0
    with files.replacing(path) as (temporary,), tf.io.TFRecordWriter(temporary) as writer:
        for serialized, questions, long_ones in made:
            for record in serialized:
                writer.write(record + tfrecord.varint(FIRST_ID + count))
                count += 1
            for where in long_ones:
                too_long(where)
            ticker.add(questions)
        if not count:
            raise UserError(f"{source.name}: there is no text in it to look for answers in")
    ticker.done()
    too_long.report(f"questions cut to `max_query_length={cut.max_query_length}` tokens")
    console.info("%s: %d windows", path, count)
    return {"windows": count}


def _chunks(parts):
    """Lists of parts with about as many characters in each."""
    chunk, count = [], 0
    for part, characters in parts:
        chunk.append(part)
        count += characters
        if count >= _CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


class _Maker:
    """Makes records of parts of a source."""

    def __init__(self, opened, tokenizer, cut, is_training):
        self._opened = opened
        self._cutter, self._is_training = FeatureConverter(tokenizer, cut, is_training), is_training
        self._encoder = _Encoder(tokenizer.vocab, cut.max_seq_length)

    def __call__(self, parts):
        """List of records without their ids, number of questions, places of those too long."""
        made, count, long_ones = [], 0, []
        for paragraph in itertools.chain.from_iterable(map(self._opened, parts)):
            for question, windows, is_cut in self._cutter(paragraph):
                made += map(self._encoder.encode, windows)
                is_used = bool(windows) or not self._is_training
                count += is_used
                if is_cut and is_used:
                    long_ones.append(question.where)
        return made, count, long_ones


class _Encoder:
    """Windows to the bytes of their records, but for the last of them, the id."""

    def __init__(self, vocab, max_seq_length):
        self._varints = {index: tfrecord.varint(index) for index in vocab.values()}
        self._cls, self._sep = self._varints[vocab[CLS]], self._varints[vocab[SEP]]
        self._size = max_seq_length
        self._context, self._bytes, self._places = None, b"", []

    def encode(self, window):
        if window.context is not self._context:
            self._learn(window.context)
        first, query = window.first, window.query
        text = self._bytes[self._places[first] : self._places[first + window.length]]
        asked = b"".join([self._varints[index] for index in query])
        in_front, behind = len(query) + 2, window.length + 1
        padding = bytes(self._size - in_front - behind)
        # In the order of their names, as a deterministic serialization has them.
        parts = []
        if window.start_position is not None:
            parts.append(
                tfrecord.int64_feature(b"end_positions", tfrecord.small_varint(window.end_position))
            )
        ids = b"".join([self._cls, asked, self._sep, text, self._sep, padding])
        parts.append(tfrecord.int64_feature(b"input_ids", ids))
        parts.append(tfrecord.int64_feature(b"input_mask", b"\x01" * (in_front + behind) + padding))
        if window.start_position is not None:
            parts.append(
                tfrecord.int64_feature(
                    b"is_impossible", tfrecord.small_varint(int(window.is_impossible))
                )
            )
        parts.append(
            tfrecord.int64_feature(b"segment_ids", bytes(in_front) + b"\x01" * behind + padding)
        )
        if window.start_position is not None:
            parts.append(
                tfrecord.int64_feature(
                    b"start_positions", tfrecord.small_varint(window.start_position)
                )
            )
        # Ids from `FIRST_ID` on have all the same length, and stand at the end.
        parts.append(tfrecord.int64_feature(b"unique_ids", tfrecord.varint(FIRST_ID)))
        return tfrecord.example(parts)[: -len(tfrecord.varint(FIRST_ID))]

    def _learn(self, context):
        pieces = [self._varints[index] for index in context.ids]
        self._context, self._bytes = context, b"".join(pieces)
        self._places = list(itertools.accumulate(map(len, pieces), initial=0))
