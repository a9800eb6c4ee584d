"""A plain port of the release's tokenizer: character by character, without a table or a cache.

A baseline for speed and a check of `bert_tf`. Like the release, it uses the Unicode data of the
running Python.
"""

import unicodedata

IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class PlainTokenizer:
    """Splits text into the pieces of the release's FullTokenizer."""

    def __init__(self, vocab, do_lower_case=True):
        """Create it from a dict from piece to id, and the casing."""
        self.vocab, self.do_lower_case = vocab, do_lower_case

    def encode(self, text):
        """Return the ids of `text`, a str."""
        return [self.vocab[piece] for piece in self.tokenize(text)]

    def tokenize(self, text):
        """Return the pieces of `text`, a str."""
        pieces = []
        for word in self._words(text):
            pieces.extend(self._pieces(word))
        return pieces

    def _words(self, text):
        words = []
        for word in self._clean(text).split():
            if self.do_lower_case:
                decomposed = unicodedata.normalize("NFD", word.lower())
                word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
            words.extend(self._split_punctuation(word))
        return " ".join(words).split()

    def _clean(self, text):
        cleaned = []
        for char in text:
            code = ord(char)
            if code in (0, 0xFFFD) or self._is_control(char):
                continue
            if any(first <= code <= last for first, last in IDEOGRAPHS):
                cleaned += [" ", char, " "]
            elif char in " \t\n\r" or unicodedata.category(char) == "Zs":
                cleaned.append(" ")
            else:
                cleaned.append(char)
        return "".join(cleaned)

    @staticmethod
    def _is_control(char):
        return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")

    @staticmethod
    def _is_punctuation(char):
        code = ord(char)
        if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
            return True
        return unicodedata.category(char).startswith("P")

    def _split_punctuation(self, word):
        parts, is_start = [], True
        for char in word:
            if self._is_punctuation(char):
                parts.append(char)
                is_start = True
            elif is_start:
                parts.append(char)
                is_start = False
            else:
                parts[-1] += char
        return parts

    def _pieces(self, word):
        if len(word) > 200:
            return ["[UNK]"]
        pieces, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start:
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self.vocab:
                    break
                end -= 1
            if end == start:
                return ["[UNK]"]
            pieces.append(piece)
            start = end
        return pieces
