"""A corpus: documents in files, their sentences, and blocks of their token ids."""

import collections
import json
import re
from array import array
from itertools import chain, groupby, islice
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.data import tfrecord
from bert_tf.errors import UserError, shown
from bert_tf.io import files, json_files

# Number of characters to tokenize at a time.
_CHUNK_SIZE = 500_000


class Document(NamedTuple):
    file: int  # the index of its file
    number: int  # the index of the document in its file
    lines: list  # str, one sentence per line, or running text if `is_raw`
    is_raw: bool  # whether `split_sentences` has yet to split the lines


class TextFileSource:
    """Documents in UTF-8 files, which may be gzipped; `done` of `total` kB have been read.

    `format` "text" has one sentence per line and blank lines between documents, "jsonl" one JSON
    object per line, whose `text_field` is a list of sentences or a string to split. "auto" is jsonl
    for names that end in .jsonl, .ndjson or .json, optionally followed by .gz, else text.
    """

    unit = "kB"

    def __init__(self, paths, format="auto", text_field="text", split_sentences=False):
        self.paths, self.num_files, self.name = paths, len(paths), ", ".join(paths)
        self._format, self._text_field, self._split = format, text_field, split_sentences
        # Raises UserError if a file is missing.
        self.total = sum(size for _, size, _ in self.fingerprint()["input"]) / 1000
        self.done = 0.0

    def fingerprint(self):
        """Return a JSON object that identifies the text by path, bytes and mtime of each file."""
        values = tfrecord.map_files(files.size_and_time, self.paths, "listing")
        return {
            "input": [[path, *value] for path, value in zip(self.paths, values, strict=True)],
            "input_format": self._format,
            "text_field": self._text_field,
            "split_sentences": self._split,
        }

    def documents(self, files=None):
        """Yield each `Document` that has text; raise UserError if JSON is malformed.

        `files` are the indices of files, by default all.
        """
        for file in range(self.num_files) if files is None else files:
            documents = self._read_json(file) if self.is_json(file) else self._read_text(file)
            for number, (lines, is_raw) in enumerate(documents):
                yield Document(file, number, lines, is_raw)

    def is_json(self, file):
        name = self.paths[file].lower().removesuffix(".gz")
        has_json_name = name.endswith((".jsonl", ".ndjson", ".json"))
        return self._format == "jsonl" or (self._format == "auto" and has_json_name)

    def _on_progress(self, num_bytes):
        self.done += num_bytes / 1000

    def _read_text(self, file):
        # In the release, the last document of a file continues in the next file.
        lines = files.read_lines(self.paths[file], self._on_progress)
        for has_text, document in groupby(lines, lambda line: bool(line.strip())):
            if has_text:
                yield list(document), self._split

    def _read_json(self, file):
        path, field = self.paths[file], self._text_field
        num_empty = 0
        for number, line in enumerate(files.read_lines(path, self._on_progress, strict=True), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                value = json_files.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(f"{where}: expected one JSON object ({error.msg})") from None
            text = value.get(field) if isinstance(value, dict) else None
            is_list = isinstance(text, list) and all(isinstance(x, str) for x in text)
            if not is_list and not isinstance(text, str):
                condition = f"{field!r} (see `text_field`) is a string or a list of strings"
                raise UserError(
                    f"{where}: found {shown(value)}, expected an object whose {condition}"
                )
            lines = [x for x in (text if is_list else [text]) if x.strip()]
            num_empty += not lines
            if lines:
                yield lines, not is_list
        if num_empty:
            console.info("%s: skipped %d documents without text", path, num_empty)


# fmt: off
ABBREVIATIONS = frozenset((
    "Mr", "Mrs", "Ms", "Dr", "Prof", "Rev", "Hon", "St", "Gen", "Col", "Capt", "Lt", "Sgt", "Sen",
    "Rep", "Gov", "Jr", "Sr", "No", "Nos", "vs", "cf", "e.g", "i.e", "al", "Fig", "Figs", "Eq",
    "Sec", "Vol", "pp", "ed", "eds", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept",
    "Oct", "Nov", "Dec", "approx", "dept", "est",
))
# fmt: on

_CLOSING = "\"'”’»)\\]」』）】"
# The lookbehind prevents quadratic time on a long run of full stops.
_END = re.compile(rf"(?<![.!?…])([.!?…]+)[{_CLOSING}]*\s+(?=(\S))|[。！？｡]+[{_CLOSING}]*\s*")
_LAST_WORD = re.compile(r"[\w.]*$")


def split_sentences(text):
    """Split running text into sentences, for languages with punctuation like English or Chinese.

    A sentence ends

    1. at the end of a line;
    2. after a full stop, "!", "?" or "…" and any closing quotes and brackets, if whitespace and
       then anything but a lower-case letter follows, unless the full stop belongs to one of
       `ABBREVIATIONS` or an initial ("J. Smith");
    3. after "。", "！", "？" or "｡" and any closing quotes and brackets.
    """
    return [sentence for line in text.split("\n") for sentence in _split_line(line)]


def _split_line(line):
    start = 0
    for end in _END.finditer(line):
        if end[1] and (
            end[2].islower() or (end[1] == "." and _is_abbreviation(line, start, end.start()))
        ):
            continue
        if sentence := line[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := line[start:].strip():
        yield sentence


def _is_abbreviation(line, start, stop):
    """Return whether the word that ends at `stop` is an abbreviation or an initial."""
    # Abbreviations have at most 10 characters.
    word = _LAST_WORD.search(line, max(start, stop - 10), stop)[0]
    last = word.rpartition(".")[2]
    return word in ABBREVIATIONS or (len(last) == 1 and last.isupper())


def cumulative_offsets(lengths):
    """Return the starts of consecutive parts and the end of the last, int64 (N + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


class Block(NamedTuple):
    """Tokenized documents: integers of T tokens in N sentences in D documents."""

    ids: np.ndarray  # (T,), all tokens
    sentences: np.ndarray  # (N,), the number of tokens of each sentence
    documents: np.ndarray  # (D,), the number of sentences of each document
    # 0 or 1 (T,), whether a token continues a word of the text; (0,) if "##" marks such tokens
    is_continuation: np.ndarray
    empty_lines: np.ndarray  # (1,), the number of lines without a token, which were skipped


class Corpus(NamedTuple):
    """Tokenized text: T tokens in N sentences in D documents."""

    ids: np.ndarray  # int32 (T,), all tokens
    sentences: np.ndarray  # int64 (N + 1,), the start of each sentence in `ids`, and T
    documents: np.ndarray  # int64 (D + 1,), the start of each document in `sentences`, and N
    is_continuation: np.ndarray  # bool (T,) or (0,), see `Block`
    empty_lines: int  # the number of lines without a token, which were skipped

    @classmethod
    def from_blocks(cls, blocks):
        columns = zip(np.zeros((5, 0), np.int32), *blocks, strict=True)
        ids, sentences, documents, is_continuation, empty_lines = map(np.concatenate, columns)
        starts = map(cumulative_offsets, (sentences, documents))
        return cls(ids, *starts, is_continuation.astype(bool), int(empty_lines.sum()))


def tokenize_chunk(tokenizer, by_spaces, chunk):
    """Return a `Block` for each shard of a chunk, see `iter_chunks`."""
    texts = [
        list(chain.from_iterable(map(split_sentences, lines))) if is_raw else lines
        for _, lines, is_raw in chunk
    ]
    all_lines = list(chain.from_iterable(texts))
    if by_spaces:
        encoded = _encode_words(all_lines, tokenizer)
    else:
        encoded = zip(tokenizer.encode_batch(all_lines), iter(tuple, None), strict=False)
    shards = collections.defaultdict(lambda: (*map(array, "iiib"), array("i", [0])))
    for (shard, *_), lines in zip(chunk, texts, strict=True):
        ids, sentences, documents, is_continuation, num_empty = shards[shard]
        with_tokens = [pair for pair in islice(encoded, len(lines)) if pair[0]]
        for line_ids, line_is_continuation in with_tokens:
            ids.extend(line_ids)
            is_continuation.extend(line_is_continuation)
            sentences.append(len(line_ids))
        num_empty[0] += len(lines) - len(with_tokens)
        if with_tokens:
            documents.append(len(with_tokens))
    return [(shard, Block(*map(np.asarray, parts))) for shard, parts in sorted(shards.items())]


def _encode_words(lines, tokenizer):
    for line in lines:
        ids, is_continuation = [], []
        for word_ids in tokenizer.encode_batch(line.split()):
            ids += word_ids
            is_continuation += [False, *[True] * (len(word_ids) - 1)] if word_ids else []
        yield ids, is_continuation


def iter_chunks(documents, num_shards, on_progress=lambda: None):
    """Assign `Document`s to shards and yield them in chunks for `tokenize_chunk`.

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
        tokenized = (tokenize_chunk(tokenizer, by_spaces, chunk) for chunk in chunks)
        return Corpus.from_blocks([block for blocks in tokenized for _, block in blocks])
