"""Tokenized text: documents to token ids, in blocks that are concatenated to a corpus."""

import collections
from array import array
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.data.pretraining.sources import split_sentences
from bert_tf.errors import DamagedFile, UserError

# Number of characters to tokenize at a time.
_CHUNK_SIZE = 500_000

# The types of the fields of a block.
_DTYPES = ("<i4", "<i4", "<i4", "?", "<i4")


class Block(NamedTuple):
    """Tokenized documents: T tokens in N sentences in D documents.

    Attributes:
      ids: int32 (T,), all tokens.
      sentences: int32 (N,), the number of tokens of each sentence.
      documents: int32 (D,), the number of sentences of each document.
      is_continuation: bool (T,), whether a token continues a word of the text; (0,) if words are
        recognised by their "##" tokens.
      empty_lines: int32 (1,), the number of lines without a token, which were skipped.
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    is_continuation: np.ndarray
    empty_lines: np.ndarray

    def largest_document(self):
        """Return the number of tokens of the largest document, 0 if there is none."""
        ends = np.concatenate([[0], np.cumsum(self.sentences, dtype=np.int64)])
        bounds = ends[np.concatenate([[0], np.cumsum(self.documents, dtype=np.int64)])]
        return int(np.diff(bounds).max(initial=0))

    def write(self, writer):
        """Append the block to an open binary file."""
        writer.write(np.array([len(part) for part in self], "<i8").tobytes())
        for part in self:
            writer.write(part.tobytes())

    @classmethod
    def read_all(cls, path, reader):
        """Return all blocks of an open binary file.

        Raises:
          DamagedFile: if the file is truncated.
        """
        blocks = []
        header_size = 8 * len(cls._fields)
        while header := reader.read(header_size):
            if len(header) < header_size:
                raise DamagedFile(f"{path}: truncated")
            parts = []
            for length, dtype in zip(np.frombuffer(header, "<i8"), _DTYPES, strict=True):
                size = int(length) * np.dtype(dtype).itemsize
                data = reader.read(size)
                if len(data) != size:
                    raise DamagedFile(f"{path}: truncated")
                parts.append(np.frombuffer(data, dtype))
            blocks.append(cls(*parts))
        return blocks


class Corpus(NamedTuple):
    """Tokenized text: T tokens in N sentences in D documents.

    Attributes:
      ids: int32 (T,), all tokens.
      sentences: int64 (N + 1,), the start of each sentence in `ids`, and T.
      documents: int64 (D + 1,), the start of each document in `sentences`, and N.
      is_continuation: see `Block`.
      empty_lines: the number of lines without a token, which were skipped.
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    is_continuation: np.ndarray
    empty_lines: int

    @classmethod
    def from_blocks(cls, blocks):
        """Concatenate blocks."""
        empty = Block(*(np.zeros(0, dtype) for dtype in _DTYPES))
        columns = zip(empty, *blocks, strict=True)
        ids, sentences, documents, is_continuation, empty_lines = map(np.concatenate, columns)
        starts = (
            np.concatenate([[0], np.cumsum(x, dtype=np.int64)]) for x in (sentences, documents)
        )
        return cls(ids, *starts, is_continuation, int(empty_lines.sum()))


class ChunkTokenizer:
    """A picklable function from a chunk of documents to a block for each shard."""

    def __init__(self, tokenizer, by_spaces):
        """Create the function; `by_spaces` means `word_boundaries="spaces"` of `InstanceConfig`."""
        self._tokenizer, self._by_spaces = tokenizer, by_spaces

    def __call__(self, chunk):
        """Return a list of (shard, `Block`) for a chunk of `iter_chunks`."""
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

    Document d of file f, both counted from 0, belongs to shard (f + d) mod `num_shards`.

    Yields:
      Lists of (shard, lines, whether the lines have to be split into sentences).
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
    """Return a source, see `sources`, as a `Corpus`. Lines without a token are skipped.

    `by_spaces` means `word_boundaries="spaces"` of `InstanceConfig`.

    Raises:
      UserError: if the source cannot be read or has no text.
    """
    with console.progress("tokenizing", source) as on_progress:
        chunks = iter_chunks(source.documents(), 1, on_progress)
        tokenized = map(ChunkTokenizer(tokenizer, by_spaces), chunks)
        corpus = Corpus.from_blocks([block for blocks in tokenized for _, block in blocks])
    check_has_text(source, len(corpus.ids))
    return corpus


def check_has_text(source, num_tokens):
    """Raise UserError if a source has no text."""
    if not num_tokens:
        raise UserError(f"{source.name}: no text found, expected one sentence per line")
