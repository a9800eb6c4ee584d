"""Tokenization of documents into blocks of token ids, which are concatenated to a corpus."""

import collections
from array import array
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.data.pretraining.sources import split_sentences

# Number of characters to tokenize at a time.
_CHUNK_SIZE = 500_000

# Little-endian types of `Block`'s fields.
_DTYPES = ("<i4", "<i4", "<i4", "?", "<i4")


def cumulative_offsets(lengths):
    """Return the starts of consecutive parts and the end of the last, int64 (N + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


class Block(NamedTuple):
    """Tokenized documents: T tokens in N sentences in D documents."""

    ids: np.ndarray  # int32 (T,), all tokens
    sentences: np.ndarray  # int32 (N,), the number of tokens of each sentence
    documents: np.ndarray  # int32 (D,), the number of sentences of each document
    # bool (T,), whether a token continues a word of the text; (0,) if "##" marks such tokens
    is_continuation: np.ndarray
    empty_lines: np.ndarray  # int32 (1,), the number of lines without a token, which were skipped

    def largest_document(self):
        """Return the number of tokens in the largest document, 0 without documents."""
        bounds = cumulative_offsets(self.sentences)[cumulative_offsets(self.documents)]
        return int(np.diff(bounds).max(initial=0))

    def write(self, writer):
        writer.write(np.array([len(part) for part in self], "<i8").tobytes())
        for part in self:
            writer.write(part.tobytes())

    @classmethod
    def read_all(cls, data):
        """Return all blocks in a file's bytes; ValueError if they are truncated."""
        blocks, offset = [], 0
        while offset < len(data):
            parts = []
            lengths = np.frombuffer(data, "<i8", len(_DTYPES), offset)
            offset += lengths.nbytes
            for length, dtype in zip(lengths.tolist(), _DTYPES, strict=True):
                parts.append(np.frombuffer(data, dtype, length, offset))
                offset += parts[-1].nbytes
            blocks.append(cls(*parts))
        return blocks


class Corpus(NamedTuple):
    """Tokenized text: T tokens in N sentences in D documents."""

    ids: np.ndarray  # int32 (T,), all tokens
    sentences: np.ndarray  # int64 (N + 1,), the start of each sentence in `ids`, and T
    documents: np.ndarray  # int64 (D + 1,), the start of each document in `sentences`, and N
    is_continuation: np.ndarray  # see `Block`
    empty_lines: int  # the number of lines without a token, which were skipped

    @classmethod
    def from_blocks(cls, blocks):
        empty = Block(*(np.zeros(0, dtype) for dtype in _DTYPES))
        columns = zip(empty, *blocks, strict=True)
        ids, sentences, documents, is_continuation, empty_lines = map(np.concatenate, columns)
        starts = map(cumulative_offsets, (sentences, documents))
        return cls(ids, *starts, is_continuation, int(empty_lines.sum()))


class ChunkTokenizer:
    """A picklable function from a chunk of documents to a block for each shard."""

    def __init__(self, tokenizer, by_spaces):
        self._tokenizer, self._by_spaces = tokenizer, by_spaces

    def __call__(self, chunk):
        texts = [
            list(chain.from_iterable(map(split_sentences, lines))) if is_raw else lines
            for _, lines, is_raw in chunk
        ]
        encode = self._encode_words if self._by_spaces else self._encode_lines
        encoded = encode(list(chain.from_iterable(texts)))
        shards = collections.defaultdict(lambda: (*map(array, "iiib"), array("i", [0])))
        for (shard, *_), lines in zip(chunk, texts, strict=True):
            ids, sentences, documents, is_continuation, num_empty = shards[shard]
            before = len(sentences)
            for _ in lines:
                line_ids, line_is_continuation = next(encoded)
                if line_ids:
                    ids.extend(line_ids)
                    is_continuation.extend(line_is_continuation)
                    sentences.append(len(line_ids))
            count = len(sentences) - before
            num_empty[0] += len(lines) - count
            if count:
                documents.append(count)
        return [
            (shard, Block(*(np.frombuffer(x, t) for x, t in zip(parts, _DTYPES, strict=True))))
            for shard, parts in sorted(shards.items())
        ]

    def _encode_lines(self, lines):
        return zip(self._tokenizer.encode_batch(lines), iter(tuple, None), strict=False)

    def _encode_words(self, lines):
        for line in lines:
            ids, is_continuation = [], []
            for word_ids in self._tokenizer.encode_batch(line.split()):
                ids += word_ids
                is_continuation += [False, *[True] * (len(word_ids) - 1)] if word_ids else []
            yield ids, is_continuation


def iter_chunks(documents, num_shards, on_progress=lambda: None):
    """Assign `Document`s to shards and yield them in chunks for a `ChunkTokenizer`.

    Document d of file f belongs to shard (f + d) mod `num_shards`. A chunk is a list of (shard,
    lines, whether to split the lines into sentences).
    """
    chunk, size = [], 0
    for document in documents:
        shard = (document.file + document.number) % num_shards
        chunk.append((shard, document.lines, document.is_raw))
        size += sum(map(len, document.lines))
        if size >= _CHUNK_SIZE:
            yield chunk
            on_progress()
            chunk, size = [], 0
    if chunk:
        yield chunk
    on_progress()


def read_corpus(source, tokenizer, by_spaces=False):
    """Tokenize a source to a `Corpus`."""
    with console.progress("tokenizing", source) as on_progress:
        chunks = iter_chunks(source.documents(), 1, on_progress)
        tokenized = map(ChunkTokenizer(tokenizer, by_spaces), chunks)
        corpus = Corpus.from_blocks([block for blocks in tokenized for _, block in blocks])
    return corpus
