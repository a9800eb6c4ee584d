#!/usr/bin/env python3
"""Writes the frozen table of characters that both tokenizers read.

The 2018 release asks the Unicode data of the Python that runs it, so its answer changes from one
Python to the next. The table holds the answer of Unicode 14.0, which Python 3.11 has; hence only a
Python with that data can make it:

    python3.11 tools/make_unicode_table.py bert_tf/tokenization/unicode_table.txt

What the file looks like is told in bert_tf/tokenization/table.py.
"""

import hashlib
import re
import sys
import unicodedata

VERSION = 1
UNICODE = "14.0.0"

# The blocks of ideographs that are written without spaces; each one becomes a word. Hangul, kana
# and the other East Asian scripts do have words and are not among them.
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

# ASCII signs that split words although Unicode calls some of them symbols: $ + < = > ^ ` | ~
ASCII_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

FIRST_HANGUL, LAST_HANGUL = 0xAC00, 0xD7A3


def clean(char):
    """Drops control characters and U+FFFD, makes a space of any space, isolates ideographs."""
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    # The line and paragraph separators are no spaces to the release, but its split() parts there.
    if category == "Zs" or char.isspace():
        return " "
    code = ord(char)
    if any(first <= code <= last for first, last in IDEOGRAPHS):
        return f" {char} "
    return char


def split(char):
    """Makes punctuation a word of its own."""
    if char in ASCII_SIGNS or unicodedata.category(char).startswith("P"):
        return f" {char} "
    return char


def split_unaccented(char):
    """As `split`, and drops the accents that decomposition has set free."""
    return "" if unicodedata.category(char) == "Mn" else split(char)


def decompose(text):
    return unicodedata.normalize("NFD", text.lower())


def tidy(text):
    """One space parts words as well as several do."""
    return re.sub(" +", " ", text)


def cased(char):
    return tidy("".join(map(split, clean(char))))


def uncased(char):
    return tidy("".join(map(split_unaccented, decompose(clean(char)))))


def rule(char):
    """The letter that says what becomes of a character, cased and uncased."""
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
    """What a character beside a capital sigma does: c cased, i looked through, - anything else."""
    if not clean(char):
        return "i"
    if (char + "Σ").lower().endswith("ς"):
        return "c"
    return "i" if ("a" + char + "Σ").lower().endswith("ς") else "-"


def order(char, ranks):
    """How canonical ordering treats it: 0 stops it, 1 passes and is stripped, 2... sorts it."""
    parts = decompose(clean(char))
    classes = [unicodedata.combining(part) for part in parts]
    if 0 in classes:
        # Any sorted mark must come after the part that stops, as `uncased` gives it.
        assert classes[0] == 0 or not ranks.keys() & set(parts), ascii(char)
        return 0
    kept = [part for part in parts if uncased(part)]
    if not kept:
        return 1
    assert len(parts) == 1, ascii(char)
    return ranks[char]


def make():
    """Returns the text of the table."""
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
            mapped.append(f"{code:x} {' '.join(f'{ord(part):x}' for part in result)}\n")
    head = f"bert_tf characters {VERSION}, Unicode {UNICODE}\n"
    return "".join([head, f"{len(runs)} runs\n", *runs, f"{len(mapped)} mapped\n", *mapped])


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(
            f"this Python has Unicode {unicodedata.unidata_version}; the table is frozen at "
            f"{UNICODE}, which Python 3.11 has"
        )
    if len(sys.argv) != 2:
        sys.exit("usage: make_unicode_table.py FILE")
    text = make().encode("ascii")
    with open(sys.argv[1], "wb") as writer:
        writer.write(text)
    print(f"{sys.argv[1]}: {len(text)} bytes, sha256 {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
