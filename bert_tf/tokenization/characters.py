"""What a tokenizer makes of each character, before words are cut into pieces.

All of Unicode passes through `normalize` and nothing else here reads `unicodedata`, so that one
frozen table can take its place.
"""

import re
import unicodedata

# The blocks of ideographs that are written without spaces; each one becomes a word. Hangul, kana
# and the other East Asian scripts do have words and are not among them.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

# ASCII signs that split words although Unicode calls some of them symbols: $ + < = > ^ ` | ~
_ASCII_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

# The only characters whose result depends on their neighbours: capital sigma has two lower cases,
# and canonical ordering sorts these marks, and those inside these musical notes, which stay when
# accents are stripped.
_NEED_NEIGHBOURS = re.compile(
    "[\u03a3\u302e\u302f\U00016ff0\U00016ff1"
    "\U0001d15e-\U0001d166\U0001d16d-\U0001d172\U0001d1bb-\U0001d1c0]"
)


def _clean(char):
    """Drops control characters and U+FFFD, makes a space of any space, isolates ideographs."""
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    if category == "Zs":
        return " "
    code = ord(char)
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    return char


def _split(char):
    """Makes punctuation a word of its own."""
    if char in _ASCII_SIGNS or unicodedata.category(char).startswith("P"):
        return f" {char} "
    return char


def _split_unaccented(char):
    """As `_split`, and drops the accents that decomposition has set free."""
    return "" if unicodedata.category(char) == "Mn" else _split(char)


def _through(function, text):
    return "".join(map(function, text))


def _decompose(text):
    return unicodedata.normalize("NFD", text.lower())


class _Table(dict):
    """Code point -> text for `str.translate`, worked out the first time that it is asked for."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, code):
        result = self[code] = self._function(chr(code))
        return result


_CLEAN = _Table(_clean)
_UNACCENTED = _Table(_split_unaccented)
_CASED = _Table(lambda char: _through(_split, _clean(char)))
_UNCASED = _Table(lambda char: _through(_split_unaccented, _decompose(_clean(char))))


def normalize(text, do_lower_case):
    """Returns `text` with its words, as the 2018 release cuts them, between white space.

    Args:
      text: a str.
      do_lower_case: True to lower the case and strip accents as well.

    Returns:
      A str; `.split()` of it gives the words.
    """
    if not do_lower_case:
        return text.translate(_CASED)
    if _NEED_NEIGHBOURS.search(text):
        return _decompose(text.translate(_CLEAN)).translate(_UNACCENTED)
    return text.translate(_UNCASED)
