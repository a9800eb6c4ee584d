#!/usr/bin/env python3
"""Write the frozen Unicode tables that both tokenizers read.

The 2018 release uses Python's Unicode data, so its tokens depend on the version of Python. The
tables reproduce them for Unicode 14.0, which requires Python 3.11:

    python3.11 tools/make_unicode_table.py bert_tf/tokenization/unicode_table.txt
    python3.11 tools/make_unicode_table.py --cases bert_tf/tokenization/unicode_cases.txt

bert_tf/tokenization/normalization.py describes the formats.
"""

import hashlib
import re
import sys
import unicodedata

VERSION = 1
UNICODE = "14.0.0"

# Blocks of CJK ideographs, each of which becomes a word. Hangul and kana are in other blocks, which
# the release does not split.
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

# All of these split words, although Unicode classifies some of them ($+<=>^`|~) as symbols.
ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

FIRST_HANGUL, LAST_HANGUL = 0xAC00, 0xD7A3


def clean(char):
    """Drop control characters and U+FFFD, replace white space by a space, isolate ideographs."""
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    # The release does not replace line and paragraph separators, but its str.split() splits there.
    if category == "Zs" or char.isspace():
        return " "
    code = ord(char)
    if any(first <= code <= last for first, last in IDEOGRAPHS):
        return f" {char} "
    return char


def split(char):
    """Isolate punctuation."""
    if char in ASCII_PUNCTUATION or unicodedata.category(char).startswith("P"):
        return f" {char} "
    return char


def split_unaccented(char):
    """Isolate punctuation and drop decomposed accents."""
    return "" if unicodedata.category(char) == "Mn" else split(char)


def decompose(text):
    return unicodedata.normalize("NFD", text.lower())


def merge_spaces(text):
    """Replace each run of spaces by one space, which separates the same words."""
    return re.sub(" +", " ", text)


def cased(char):
    return merge_spaces("".join(map(split, clean(char))))


def uncased(char):
    return merge_spaces("".join(map(split_unaccented, decompose(clean(char)))))


def lowered(char):
    """Lower-case without stripping accents, like Hugging Face's `strip_accents=False`."""
    return merge_spaces("".join(map(split, clean(char).lower())))


def stripped(char):
    """Strip accents without lower-casing, like `strip_accents=True` for a cased model."""
    text = unicodedata.normalize("NFD", clean(char))
    return merge_spaces("".join(map(split_unaccented, text)))


def rule(char):
    """Return the RULE of a character."""
    results = cased(char), uncased(char)
    isolated = f" {char} "
    if FIRST_HANGUL <= ord(char) <= LAST_HANGUL:
        return "h"
    letters = {
        (char, char): "k",
        ("", ""): "d",
        (" ", " "): "s",
        (isolated, isolated): "i",
        (char, ""): "a",
    }
    return letters.get(results) or ("M" if results[0] == isolated else "m")


def sigma(char):
    """Return the SIGMA property: c if cased, i if case-ignorable, - otherwise."""
    if not clean(char):
        return "i"
    if (char + "Σ").lower().endswith("ς"):
        return "c"
    return "i" if ("a" + char + "Σ").lower().endswith("ς") else "-"


def order(char, ranks):
    """Return the ORDER property: 0 for no reordering, 1 for stripped marks, else a rank."""
    parts = decompose(clean(char))
    classes = [unicodedata.combining(part) for part in parts]
    if 0 in classes:
        # A character with kept marks must start with a base character.
        assert classes[0] == 0 or not ranks.keys() & set(parts), ascii(char)
        return 0
    kept = [part for part in parts if uncased(part)]
    if not kept:
        return 1
    assert len(parts) == 1, ascii(char)
    return ranks[char]


def make():
    """Return the text of the table."""
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    marks = {char: unicodedata.combining(char) for char in characters if uncased(char) == char}
    marks = {char: group for char, group in marks.items() if group}
    groups = sorted(set(marks.values()))
    ranks = {char: 2 + groups.index(group) for char, group in marks.items()}

    runs, mapped = [], []
    before = None
    for code, char in enumerate(characters):
        letter = rule(char)
        properties = f"{letter} {sigma(char)} {order(char, ranks)}"
        if properties != before:
            runs.append(f"{code:x} {properties}\n")
            before = properties
        if letter in "mM":
            result = uncased(char)
            assert set(filter(str.isspace, result)) <= {" "}, ascii(char)
            mapped.append(_line(code, result))
    head = f"bert_tf characters {VERSION}, Unicode {UNICODE}\n"
    return "".join([head, f"{len(runs)} runs\n", *runs, f"{len(mapped)} mapped\n", *mapped])


def make_cases():
    """Return the text of the table for lower-casing alone and accent stripping alone."""
    lower, strip = [], []
    for code, char in enumerate(map(chr, range(sys.maxunicode + 1))):
        has_lower = lowered(char) != cased(char)
        if has_lower:
            lower.append(_line(code, lowered(char)))
        if stripped(char) != (char if has_lower else uncased(char)):
            strip.append(_line(code, stripped(char)))
    head = f"bert_tf cases {VERSION}, Unicode {UNICODE}\n"
    return "".join([head, f"{len(lower)} lowered\n", *lower, f"{len(strip)} stripped\n", *strip])


def _line(code, result):
    return f"{code:x} {' '.join(f'{ord(part):x}' for part in result)}\n"


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(
            f"this Python has Unicode {unicodedata.unidata_version}, but the table requires "
            f"{UNICODE}: use Python 3.11"
        )
    *options, path = sys.argv[1:] or [""]
    if not path or options not in ([], ["--cases"]):
        sys.exit("usage: make_unicode_table.py [--cases] FILE")
    text = (make_cases() if options else make()).encode("ascii")
    with open(path, "wb") as writer:
        writer.write(text)
    print(f"{path}: {len(text)} bytes, sha256 {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
