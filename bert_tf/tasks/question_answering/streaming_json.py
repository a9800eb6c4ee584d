"""A JSON file of SQuAD read an article at a time, so that no size of file fills the memory."""

import codecs
import json

import tensorflow as tf

from bert_tf.errors import UserError, reason

# Bytes to read at a time; more where a single article is larger.
_PART = 1 << 20
_BLANK = " \t\r\n"

# Characters of a single article: more would not fit into the memory of many machines.
_LONGEST = 1 << 30

# What is cut off is wrong at its end only: in a number, a word such as -Infinity, an escape.
_LONGEST_WORD = 16


def read_articles(path, as_text=False):
    """Reads the elements of the list "data" of a JSON object.

    Args:
      path: the file.
      as_text: whether to give each of them as its JSON.

    Yields:
      Each element as Python has it, or as text.

    Raises:
      UserError: if the file cannot be read or is no such JSON; says line and character.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            yield from _Document(path, reader).articles(as_text)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


class _Document:
    """The part of a document that is being read, and how far that is from its beginning."""

    def __init__(self, path, reader):
        self.path, self._reader = path, reader
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0
        # Of what was dropped already: its lines, and the characters behind the last line end.
        self._lines, self._column, self._bytes = 0, 0, 0
        self._is_whole = False

    def articles(self, as_text):
        self._take("{", "an object with the list 'data', as SQuAD's files have it,")
        has_data = False
        while self._peek() != "}":
            key = self._value()
            self._take(":", "':'")
            if key == "data":
                has_data = True
                yield from self._elements(as_text)
            else:
                self._value()
            if self._peek() != "}":
                self._take(",", "',' or '}'")
        self._at += 1
        if self._peek():
            self._fail("nothing was expected behind the last '}'", self._at)
        if not has_data:
            raise UserError(f"{self.path}: 'data' is missing, the list of articles")

    def _elements(self, as_text):
        self._take("[", "a list as 'data'")
        while self._peek() != "]":
            yield self._value(as_text)
            if self._peek() != "]":
                self._take(",", "',' or ']'")
        self._at += 1

    def _peek(self):
        """The next character that is no blank, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._more()

    def _take(self, wanted, name):
        if self._peek() != wanted:
            self._fail(f"{name} was expected", self._at)
        self._at += 1

    def _value(self, as_text=False):
        self._peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated")
                is_inside = error.pos < len(self._text) - _LONGEST_WORD and not is_open
                if self._is_whole or is_inside:
                    self._fail(error.msg, error.pos, is_open)
            except RecursionError:
                self._fail("lists within lists without end", self._at)
            except ValueError as error:  # a number of more digits than Python reads
                self._fail(reason(error), self._at)
            else:
                # What ends with the part may go on behind it, as a number does: 1 is 1.5e-7.
                if end + _LONGEST_WORD <= len(self._text) or self._is_whole:
                    text = self._text[self._at : end] if as_text else None
                    self._at = end
                    return text if as_text else value
            if len(self._text) - self._at > _LONGEST:
                self._fail(f"an article may have {_LONGEST} characters at most", self._at)
            self._more()

    def _more(self):
        """Drops what is done with and reads on: twice as much as there is, so that it ends."""
        dropped = self._text[: self._at]
        if "\n" in dropped:
            self._lines += dropped.count("\n")
            self._column = 0
        self._column += len(dropped) - dropped.rfind("\n") - 1
        rest = self._text[self._at :]
        data = self._reader.read(max(_PART, len(rest)))
        self._is_whole = not data
        try:
            self._text, self._at = rest + self._decode(data, final=self._is_whole), 0
        except UnicodeDecodeError as error:
            byte = self._bytes + error.start
            raise UserError(f"{self.path}: about byte {byte}: this is not UTF-8 text") from None
        self._bytes += len(data)

    def _fail(self, message, position, is_cut=False):
        before = self._text[:position]
        line = self._lines + before.count("\n") + 1
        column = position - before.rfind("\n")
        if line == self._lines + 1:
            column += self._column
        is_cut = is_cut or not self._text[position:].strip(_BLANK)
        cut = "; the file ends before the JSON does: is it cut off?" if is_cut else ""
        raise UserError(
            f"{self.path}, line {line}, character {column}: not JSON as expected ({message}){cut}"
        )
