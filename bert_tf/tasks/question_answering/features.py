"""Questions and contexts to windows of tokens, as the release cuts them.

A context that does not fit beside its question is read in windows that overlap. A token that lies
in several of them has its "maximum context" in one: that where it is farthest from both edges. An
answer may only begin there, so the same one is not found several times.
"""

import dataclasses
import functools
import itertools
from typing import NamedTuple

from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.tasks.question_answering.words import Words
from bert_tf.tasks.windows import Windows

CLS, SEP = "[CLS]", "[SEP]"
FIRST_ID = 1_000_000_000

# Texts hold few different words, but a vast set holds names and numbers without end.
_CACHED_WORDS = 500_000

# What stands around question and window: [CLS] question [SEP] window [SEP].
AROUND = 3


@dataclasses.dataclass(frozen=True)
class WindowConfig:
    """How questions and contexts become features; names and defaults are those of the flags.

    `answer_alignment` is "release", by words and what they are made of, or "offsets", by
    characters; it is also how tokens become answers again.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    answer_alignment: str = "release"

    def check(self):
        """Returns itself; UserError if no window fits behind the longest question."""
        if self.max_seq_length <= self.max_query_length + AROUND:
            raise UserError(
                f"`max_seq_length={self.max_seq_length}` must be greater than `max_query_length`="
                f"{self.max_query_length} + {AROUND}"
            )
        return self

    @property
    def by_offsets(self):
        """Whether answers are found by characters."""
        return self.answer_alignment == "offsets"


class Context:
    """A tokenized context, for all questions about it.

    Attributes:
      text: the text.
      words: its words, by `Words`.
      ids: the ids of its tokens.
      word_of: for each token the word that it is a part of.
      first_token: for each word its first token.
    """

    def __init__(self, text, tokenizer, ids_of=None):
        """Cuts and tokenizes a text, by a `FullTokenizer`; `ids_of` has the ids of words."""
        self.text, self._tokenizer = text, tokenizer
        self.words = Words(text)
        ids_of = _IdsOfWords(tokenizer) if ids_of is None else ids_of
        self._ids = [ids_of[word] for word in self.words.texts]
        self.ids = list(itertools.chain.from_iterable(self._ids))
        self._offsets = None
        self._windows = {}

    @functools.cached_property
    def first_token(self):
        return list(itertools.accumulate(map(len, self._ids[:-1]), initial=0))

    @functools.cached_property
    def word_of(self):
        return [number for number, ids in enumerate(self._ids) for _ in ids]

    def offsets(self):
        """(starts, ends), two lists: for each token the characters that it is made of."""
        if self._offsets is None:
            ids, *self._offsets = self._tokenizer.encode_with_offsets(self.text)
            if ids != self.ids:
                raise AssertionError(f"other tokens with offsets: {self.text!r}")
        return self._offsets

    def windows(self, room, stride):
        """The windows of at most `room` tokens, each `stride` after the one before: `Windows`."""
        key = room, stride
        if key not in self._windows:
            self._windows[key] = Windows(len(self.ids), room, stride)
        return self._windows[key]

    def tokens_of(self, answer, by_offsets):
        """(first token, last token) of an answer; None if it is not there.

        Its words hold it, but may hold more ("(1895-1943)." for "1895"): of their tokens those are
        taken that are the answer's own tokens, if such are among them.
        """
        words = self.words.find(answer, by_offsets)
        if words is None:
            return None
        if by_offsets:
            return self._overlapping(answer.start, answer.start + len(answer.text))
        first, last = self.first_token[max(words[0], 0)], len(self.ids) - 1
        if words[1] + 1 < len(self.first_token):
            last = self.first_token[words[1] + 1] - 1
        own = self._tokenizer.encode(answer.text)
        for start in range(first, last + 2 - len(own)):
            if own and self.ids[start : start + len(own)] == own:
                return start, start + len(own) - 1
        return first, last

    def _overlapping(self, start, end):
        tokens = [
            token
            for token, (first, last) in enumerate(zip(*self.offsets(), strict=True))
            if first < end and last > start
        ]
        return (tokens[0], tokens[-1]) if tokens else None


class Window(NamedTuple):
    """A question beside one window of its context.

    `query` are the question's ids, cut to the limit; `index` is that of the window, which has the
    `length` tokens of the context from `first` on. `start_position` and `end_position` are those of
    the answer in the sequence, 0 if there is none in the window, None outside training.
    """

    context: Context
    windows: Windows
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
        """The token of the context at a position of the sequence; None if there is none."""
        token = position - self.offset
        return self.first + token if 0 <= token < self.length else None

    def is_max_context(self, position):
        """Whether the token at that position has its maximum context here."""
        return self.windows.is_max_context(self.index, self.token_at(position))

    def values(self, vocab, max_seq_length, unique_id):
        """The values of its record: a dict for `records.SQUAD`, or `SQUAD_TRAINING`."""
        sep = vocab[SEP]
        first = [vocab[CLS], *self.query, sep]
        second = [*self.context.ids[self.first : self.first + self.length], sep]
        padding = [0] * (max_seq_length - len(first) - len(second))
        values = {
            "unique_ids": unique_id,
            "input_ids": first + second + padding,
            "input_mask": [1] * (len(first) + len(second)) + padding,
            "segment_ids": [0] * len(first) + [1] * len(second) + padding,
        }
        if self.start_position is not None:
            values["start_positions"] = self.start_position
            values["end_positions"] = self.end_position
            values["is_impossible"] = int(self.is_impossible)
        return values

    @property
    def schema(self):
        """That of its record."""
        return records.SQUAD if self.start_position is None else records.SQUAD_TRAINING


def question_windows(question, query, context, cut, is_training):
    """Cuts the context of a question.

    Args:
      question: a `reading.Question`.
      query: the ids of its text.
      context: a `Context`.
      cut: a `WindowConfig`.
      is_training: whether to find the answer in each window.

    Returns:
      List of `Window`; none if the context has no tokens, or if in training its answer is not in
      it.
    """
    query = query[: cut.max_query_length]
    windows = context.windows(cut.max_seq_length - len(query) - AROUND, cut.doc_stride)
    answer = None
    if is_training and not question.is_impossible:
        answer = context.tokens_of(question.answers[0], cut.by_offsets)
        if answer is None:
            return []
    made = []
    for index, (first, length) in enumerate(windows.spans):
        start = end = 0 if is_training else None
        # A window that holds the answer in part has none, and learns to say so.
        if answer and first <= answer[0] and answer[1] < first + length:
            shift = len(query) + 2 - first
            start, end = answer[0] + shift, answer[1] + shift
        made.append(
            Window(context, windows, query, index, first, length, start, end,
                   is_training and question.is_impossible)
        )  # fmt: skip
    return made


class FeatureConverter:
    """Cuts the contexts of paragraphs for their questions.

    >>> converter = FeatureConverter(tokenizer, cut, is_training=True)
    >>> for question, windows, is_cut in converter(paragraph):
    ...
    """

    def __init__(self, tokenizer, cut, is_training):
        """Takes a `FullTokenizer`, a `WindowConfig`, and whether to find the answers."""
        self._tokenizer, self._cut, self._is_training = tokenizer, cut, is_training
        self._ids_of = _IdsOfWords(tokenizer)

    def __call__(self, paragraph):
        """Goes through the questions about a `reading.Paragraph`.

        Yields:
          (question, its list of `Window`, whether it was longer than it may be)
        """
        context = Context(paragraph.context, self._tokenizer, self._ids_of)
        queries = self._tokenizer.encode_batch(question.text for question in paragraph.questions)
        for question, query in zip(paragraph.questions, queries, strict=True):
            windows = question_windows(question, query, context, self._cut, self._is_training)
            yield question, windows, len(query) > self._cut.max_query_length


class _IdsOfWords(dict):
    """Word -> its ids, worked out the first time that it is asked for."""

    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word):
        if len(self) >= _CACHED_WORDS:
            self.clear()
        ids = self[word] = self._tokenizer.encode(word)
        return ids
