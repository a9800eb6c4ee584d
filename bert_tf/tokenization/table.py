"""The frozen table: what becomes of each character, by Unicode 14.0 and the rules of the release.

`unicode_table.txt` is made by `tools/make_unicode_table.py` and is ASCII. After a line with its
version come two lists, each with its length in front.

Runs: `FIRST RULE SIGMA ORDER` says what holds from the code point FIRST (hexadecimal, as all code
points) up to the next run.

* RULE: `k` keep; `d` drop; `s` a space; `i` isolate, which is a space on either side; `a` an
  accent, kept in cased text and dropped in uncased; `h` Hangul, kept in cased text and taken apart
  in uncased; `m` and `M` mapped in uncased text as the second list says, in cased text kept (`m`)
  or isolated (`M`).
* SIGMA: what the character does to a capital sigma near it: `c` it is cased, `i` it is looked
  through, `-` neither.
* ORDER: what it does to the marks around it where Unicode sorts marks: 0 nothing passes it; 1 it is
  passed and leaves nothing in uncased text; 2 and more is its place among the marks that stay.

Mapped: `CODE TO TO ...` is what a single character of uncased text turns into.
"""

import hashlib
import pathlib
from bisect import bisect_right

VERSION = 1
UNICODE = "14.0.0"
SHA256 = "dc1d0596fa6efdf04715cbd81c95905ef960440c289d0678c474d8954f1e4955"

_PATH = pathlib.Path(__file__).with_name("unicode_table.txt")

# Hangul syllables are laid out by arithmetic: 19 first sounds, 21 vowels, 28 last sounds or none.
_SYLLABLES, _FIRSTS, _VOWELS, _LASTS = 0xAC00, 0x1100, 0x1161, 0x11A7


def _read():
    """Returns the first code point of each run, the runs, and the mapped characters."""
    data = _PATH.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise RuntimeError(f"{_PATH}: damaged, its sha256 is not the one of version {VERSION}")
    lines = data.decode("ascii").split("\n")
    if lines[0] != f"bert_tf characters {VERSION}, Unicode {UNICODE}":
        raise RuntimeError(f"{_PATH}: not the table of version {VERSION}")
    end = 2 + int(lines[1].split()[0])
    firsts, runs = [], []
    for line in lines[2:end]:
        first, rule, sigma, order = line.split()
        firsts.append(int(first, 16))
        runs.append((rule, sigma, int(order)))
    mapped = {}
    for line in lines[end + 1 : -1]:
        code, *result = line.split()
        mapped[int(code, 16)] = "".join([chr(int(part, 16)) for part in result])
    return firsts, runs, mapped


FIRSTS, RUNS, MAPPED = _read()


def lookup(code):
    """Returns (rule, sigma, order) of a code point."""
    return RUNS[bisect_right(FIRSTS, code) - 1]


def _jamo(code):
    rest, last = divmod(code - _SYLLABLES, 28)
    first, vowel = divmod(rest, 21)
    sounds = chr(_FIRSTS + first) + chr(_VOWELS + vowel)
    return sounds + chr(_LASTS + last) if last else sounds


def cased(code):
    """Returns what a code point turns into in cased text, a str."""
    rule = lookup(code)[0]
    if rule == "d":
        return ""
    if rule == "s":
        return " "
    return f" {chr(code)} " if rule in "iM" else chr(code)


def uncased(code):
    """Returns what a code point turns into in uncased text if nothing near it matters, a str."""
    rule = lookup(code)[0]
    if rule in "mM":
        return MAPPED[code]
    if rule == "a":
        return ""
    return _jamo(code) if rule == "h" else cased(code)
