"""Texts, and pairs of texts, to sequences of token ids of any length up to the longest allowed."""

import itertools
import re
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.pipelines.runner import Row
from bert_tf.tasks.base import SHORTEST
from bert_tf.tasks.classification.features import truncate_pair

_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


class Text(NamedTuple):
    """One line of the input: its number from 0, a text, and the second text of a pair or None."""

    index: int  # type: ignore[assignment]
    text_a: str
    text_b: str | None

    @classmethod
    def parse(cls, index, line):
        """Reads a line, the two texts of a pair with " ||| " between them, as the release does."""
        line = line.strip()
        match = _PAIR.match(line)
        return cls(index, *match.groups()) if match else cls(index, line, None)


def read_texts(path):
    """Yields a `Text` for each line of a file; an empty line is an empty text."""
    for index, line in enumerate(files.read_lines(path)):
        yield Text.parse(index, line)


def check_several(texts):
    """Raises TypeError if `texts` is one text: it would be taken for many of one letter."""
    if isinstance(texts, str):
        raise TypeError("a list of texts was expected, not one text")


class Word(NamedTuple):
    """A word between white space, and its tokens' places in the sequence, `start` to `end`."""

    text: str
    start: int
    end: int


class Sequence(NamedTuple):
    """A text in the form that the model takes."""

    text: Text
    input_ids: list
    words: list | None


class TextRows:
    """Texts to `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, shortened as in the release.

    Attributes:
      num_cut: how many texts were longer than `max_seq_length` so far.
    """

    def __init__(self, tokenizer, max_seq_length, with_words=False):
        """Takes how to cut texts up.

        Args:
          tokenizer: a `FullTokenizer`.
          max_seq_length: the most tokens, [CLS] and [SEP] among them.
          with_words: whether to say which tokens are of which word; a word is what stands between
            white space, and is tokenized by itself.
        """
        if max_seq_length < SHORTEST:
            raise UserError(f"`max_seq_length={max_seq_length}` is less than {SHORTEST}")
        self._tokenizer = tokenizer
        self._limit = max_seq_length
        self._with_words = with_words
        self._cls, self._sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self.num_cut = self._num_empty = 0

    def row(self, text):
        """Returns the `Row` of a `Text`, its item a `Sequence`."""
        ids_a, words_a = self._encode(text.text_a)
        ids_b, words_b = self._encode(text.text_b or "")
        total = len(ids_a) + len(ids_b)
        if ids_b:
            truncate_pair(ids_a, ids_b, self._limit - 3)
        del ids_a[self._limit - 2 :]
        self.num_cut += len(ids_a) + len(ids_b) < total
        first = [self._cls, *ids_a, self._sep]
        second = [*ids_b, self._sep] if ids_b else []
        words = None
        if self._with_words:
            words = _placed(words_a, 1, len(ids_a)) + _placed(words_b, len(first), len(ids_b))
        ids = first + second
        return Row(Sequence(text, ids, words), ids, [0] * len(first) + [1] * len(second))

    def of(self, texts):
        """Yields the `Row` of each of `texts`: `Text`s, or str with " ||| " in a pair."""
        check_several(texts)
        for index, text in enumerate(texts):
            yield self.row(text if isinstance(text, Text) else Text.parse(index, text))

    def report(self):
        """Warns if texts were cut, or words came to nothing."""
        if self.num_cut:
            console.warning(
                "%d texts are longer than `max_seq_length=%d`, and what is too much of them is "
                "left out",
                self.num_cut, self._limit,
            )  # fmt: skip
        if self._num_empty:
            console.warning(
                "%d words have no token, as of invisible characters, and are left out",
                self._num_empty,
            )  # fmt: skip
        self.num_cut = self._num_empty = 0

    def _encode(self, text):
        """The ids of a text, and pairs of each word and how many of the ids are its."""
        if not self._with_words:
            return self._tokenizer.encode(text), None
        words = text.split()
        parts = self._tokenizer.encode_batch(words)
        self._num_empty += sum(not part for part in parts)
        counts = [(word, len(part)) for word, part in zip(words, parts, strict=True)]
        return list(itertools.chain.from_iterable(parts)), counts


def _placed(words, start, num_kept):
    """The words of which at least one token is among the first `num_kept`, as `Word`s."""
    placed, end_of_text = [], start + num_kept
    for word, count in words:
        end = min(start + count, end_of_text)
        if end > start:
            placed.append(Word(word, start, end))
        start = end
    return placed
