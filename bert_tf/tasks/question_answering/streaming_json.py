"""Streaming reader of SQuAD's JSON files, which holds one article in memory at a time.

The library ijson 3.6 was tried instead. Its errors have no line number: the C backend shows only an
excerpt, the Python backend reads 4 MB/s. It accepts a file whose "data" is missing or not a list,
rejects a byte order mark, NaN and integers above 64 bits, reads a lone surrogate as "?", and needs
quadratic memory for nested lists. On 32 MB of SQuAD its C backend reads 57 MB/s against 83 here. It
cannot return an article as text for another process; converted back that is 30 MB/s against 86.
"""

import codecs
import json

import tensorflow as tf

from bert_tf.errors import UserError, reason

# Bytes to read at a time; more if a single article is larger.
_READ_SIZE = 1 << 20
_BLANK = " \t\r\n"

# The largest number of characters in an article, so that a broken file cannot fill the memory.
_MAX_ARTICLE_SIZE = 1 << 30

# A value that is incomplete because the text ends there, such as a number, a word like -Infinity or
# an escape sequence, makes an error within this distance of the end.
_MAX_TOKEN_SIZE = 16


def read_articles(path, as_text=False):
    """Yield the elements of the list "data" of a JSON object, or their JSON text with `as_text`.

    Raises:
      UserError: If the file cannot be read or is not such JSON; names the line and the character.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            yield from _Parser(path, reader).articles(as_text)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


class _Parser:
    """Parses a document of which only a part, `_text`, is in memory."""

    def __init__(self, path, reader):
        self.path, self._reader = path, reader
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0
        # Of the text that was dropped: line ends, characters after the last line end, bytes.
        self._lines, self._column, self._bytes = 0, 0, 0
        self._is_complete = False

    def articles(self, as_text):
        """Yield the elements of "data"."""
        self._expect("{", "an object with the list 'data', as in SQuAD")
        has_data = False
        while self._peek() != "}":
            key = self._value()
            self._expect(":", "':'")
            if key == "data":
                has_data = True
                yield from self._elements(as_text)
            else:
                self._value()
            if self._peek() != "}":
                self._expect(",", "',' or '}'")
        self._at += 1
        if self._peek():
            self._fail("expected the end of the file after the last '}'", self._at)
        if not has_data:
            raise UserError(f"{self.path}: the key 'data', the list of articles, is missing")

    def _elements(self, as_text):
        self._expect("[", "a list as 'data'")
        while self._peek() != "]":
            yield self._value(as_text)
            if self._peek() != "]":
                self._expect(",", "',' or ']'")
        self._at += 1

    def _peek(self):
        """Return the next character that is not blank, "" at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or self._is_complete:
                return self._text[self._at : self._at + 1]
            self._read_more()

    def _expect(self, character, description):
        if self._peek() != character:
            self._fail(f"expected {description}", self._at)
        self._at += 1

    def _value(self, as_text=False):
        self._peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated")
                is_inside = error.pos < len(self._text) - _MAX_TOKEN_SIZE and not is_open
                if self._is_complete or is_inside:
                    self._fail(error.msg, error.pos, is_open)
            except RecursionError:
                self._fail("too deeply nested", self._at)
            except ValueError as error:  # a number with more digits than Python converts
                self._fail(reason(error), self._at)
            else:
                # A value that ends with the text may continue after it: 1 may become 1.5e-7.
                if end + _MAX_TOKEN_SIZE <= len(self._text) or self._is_complete:
                    text = self._text[self._at : end] if as_text else None
                    self._at = end
                    return text if as_text else value
            if len(self._text) - self._at > _MAX_ARTICLE_SIZE:
                self._fail(f"an article must have at most {_MAX_ARTICLE_SIZE} characters", self._at)
            self._read_more()

    def _read_more(self):
        """Drop what was parsed and read as much again as is left, so that the time is linear."""
        dropped = self._text[: self._at]
        if "\n" in dropped:
            self._lines += dropped.count("\n")
            self._column = 0
        self._column += len(dropped) - dropped.rfind("\n") - 1
        rest = self._text[self._at :]
        data = self._reader.read(max(_READ_SIZE, len(rest)))
        self._is_complete = not data
        try:
            self._text, self._at = rest + self._decode(data, final=self._is_complete), 0
        except UnicodeDecodeError as error:
            byte = self._bytes + error.start
            raise UserError(f"{self.path}: not UTF-8 text near byte {byte}") from None
        self._bytes += len(data)

    def _fail(self, message, position, is_open=False):
        before = self._text[:position]
        line = self._lines + before.count("\n") + 1
        column = position - before.rfind("\n")
        if line == self._lines + 1:
            column += self._column
        is_truncated = is_open or not self._text[position:].strip(_BLANK)
        hint = "; the file may be truncated" if is_truncated else ""
        raise UserError(
            f"{self.path}, line {line}, character {column}: invalid JSON: {message}{hint}"
        )
