"""Alignment of the characters, words and tokens of a context.

Answers have character offsets, but the model predicts tokens. The release maps between them through
words separated by whitespace; `answer_alignment=offsets` uses the character offsets of the tokens.
"""

import bisect
import functools
import itertools
import re

# The release separates words at these characters, not at all Unicode whitespace.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Words:
    """The words of `text`; `texts` is the list of their strings."""

    def __init__(self, text):
        self.text, self.texts = text, _WORD.findall(text)

    @functools.cached_property
    def starts(self):
        return [match.start() for match in _WORD.finditer(self.text)]

    def find_answer(self, answer, by_offsets=False):
        """Return (first word, last word) of an `Answer`, or None if it is not in the text."""
        last = answer.start + len(answer.text) - 1
        if answer.start < 0 or last >= len(self.text) or not answer.text.strip():
            return None
        # The words at or before the characters, -1 before the first word.
        span = tuple(bisect.bisect_right(self.starts, x) - 1 for x in (answer.start, last))
        if by_offsets or answer.is_exact:
            return span if self.text.startswith(answer.text, answer.start) else None
        # As in the release, an answer that starts before the first word covers no words.
        covered = " ".join(self.texts[span[0] : span[1] + 1]) if span[0] >= 0 else ""
        return span if " ".join(answer.text.split()) in covered else None


class Context:
    """A tokenized context with its token `ids` and `Words`, shared by all questions about it."""

    def __init__(self, text, tokenizer):
        """Tokenize a text with a `FullTokenizer`."""
        self.text, self._tokenizer = text, tokenizer
        self.words = Words(text)
        self._ids = tokenizer.encode_batch(self.words.texts)
        self.ids = list(itertools.chain.from_iterable(self._ids))

    @functools.cached_property
    def word_to_token(self):
        return list(itertools.accumulate(map(len, self._ids[:-1]), initial=0))

    @functools.cached_property
    def token_to_word(self):
        return [number for number, ids in enumerate(self._ids) for _ in ids]

    @functools.cached_property
    def offsets(self):
        """Start and end offsets of the tokens, two lists."""
        ids, *offsets = self._tokenizer.encode_with_offsets(self.text)
        assert ids == self.ids, f"tokens with offsets differ: {self.text!r}"
        return offsets

    def find_answer_tokens(self, answer, by_offsets):
        """Return (first token, last token) of an `Answer`, or None if it is not in the context."""
        words = self.words.find_answer(answer, by_offsets)
        if words is None:
            return None
        if by_offsets:
            start, end = answer.start, answer.start + len(answer.text)
            spans = enumerate(zip(*self.offsets, strict=True))
            tokens = [token for token, (a, b) in spans if a < end and b > start]
            return (tokens[0], tokens[-1]) if tokens else None
        first, last = self.word_to_token[max(words[0], 0)], len(self.ids) - 1
        if words[1] + 1 < len(self.word_to_token):
            last = self.word_to_token[words[1] + 1] - 1
        # As in the release, narrow words such as "(1895-1943)." to the tokens of the answer.
        answer_ids = self._tokenizer.encode(answer.text)
        for start in range(first, last + 2 - len(answer_ids)):
            if answer_ids and self.ids[start : start + len(answer_ids)] == answer_ids:
                return start, start + len(answer_ids) - 1
        return first, last

    def token_text(self, first, last, by_offsets):
        """Return the text of the tokens, and None or why it was expanded to whole words."""
        if by_offsets:
            starts, ends = self.offsets
            # Normalization may reorder combining marks, so the offsets need not be in order.
            return self.text[min(starts[first : last + 1]) : max(ends[first : last + 1])], None
        pieces = self._tokenizer.convert_ids_to_tokens(self.ids[first : last + 1])
        tokens = " ".join(pieces).replace(" ##", "").replace("##", "").split()
        words = self.words.texts[self.token_to_word[first] : self.token_to_word[last] + 1]
        return get_final_text(" ".join(tokens), " ".join(words), self._tokenizer.basic_tokenizer)


def get_final_text(tokens, words, basic_tokenizer):
    """Project the tokens of an answer onto the words that contain them, as the release does.

    The words may contain more than the answer: "Steve Smith's" for the tokens "steve smith". The
    tokens may lack case and accents, so the release tokenizes the words, searches the result, and
    maps the position back by counting non-space characters. If the tokenizer adds or removes
    characters, this fails and all of `words` is the answer; use `answer_alignment=offsets` then.

    Returns:
      The answer, and None or the reason why it is all of `words`.
    """
    tokenized = " ".join(basic_tokenizer.tokenize(words))
    start = tokenized.find(tokens)
    if start < 0:
        return words, f"{tokens!r} does not occur in {tokenized!r}"
    in_words, in_tokenized = _non_space_indexes(words), _non_space_indexes(tokenized)
    if len(in_words) != len(in_tokenized):
        return words, f"{tokenized!r} has a different number of characters"
    # The n-th characters of both texts, not counting spaces, correspond.
    rank = {index: n for n, index in enumerate(in_tokenized)}
    ends = [rank.get(start), rank.get(start + len(tokens) - 1)]
    if None in ends:
        return words, f"{tokens!r} begins or ends with a space of {tokenized!r}"
    return words[in_words[ends[0]] : in_words[ends[1]] + 1], None


def _non_space_indexes(text):
    return [index for index, char in enumerate(text) if char != " "]
