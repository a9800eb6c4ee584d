"""Text normalization of the 2018 release, driven by a frozen Unicode table.

Python's Unicode data are not used, because they depend on the version of Python.

`tools/make_unicode_table.py` writes `unicode_table.txt`, an ASCII file: a line with its version,
then two lists, each preceded by its length. Code points are hexadecimal.

Runs, `FIRST RULE SIGMA ORDER`: the properties of the code points from FIRST to the next run.

* RULE: `k` keep; `d` drop; `s` replace by a space; `i` isolate (surround by spaces); `a` accent,
  dropped in uncased text; `h` Hangul syllable, decomposed in uncased text; `m` and `M` replaced in
  uncased text according to the second list. In cased text, `a`, `h` and `m` are kept and `M` is
  isolated.
* SIGMA: the role in Unicode's final-sigma rule: `c` cased, `i` case-ignorable, `-` neither.
* ORDER: the role in canonical ordering, which sorts combining marks. 0: no mark moves across the
  character; 1: the mark moves but is dropped from uncased text; 2 or more: its rank among kept
  marks.

Replacements, `CODE TO TO ...`: the characters that replace a code point in uncased text.

For models that only lower-case or only strip accents, `unicode_cases.txt` has the replacements of
each; accent stripping keeps a code point that is only in the first list.
"""

import functools
import pathlib
import re
from bisect import bisect_right
from collections import Counter

UNICODE_VERSION = "14.0.0"
TABLE_PATH = pathlib.Path(__file__).with_name("unicode_table.txt")
CASES_PATH = pathlib.Path(__file__).with_name("unicode_cases.txt")

# Blocks of ideographs that the release isolates.
IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip

SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"

# Hangul syllables are ordered by 19 initial sounds, 21 medial sounds, and 27 final sounds or none.
_FIRST_SYLLABLE, _FIRST_INITIAL, _FIRST_MEDIAL, _BEFORE_FIRST_FINAL = 0xAC00, 0x1100, 0x1161, 0x11A7
# RULE -> the template of the str that replaces a character in cased text, itself by default.
_CASED = {"d": "", "s": " ", "i": " {} ", "M": " {} "}


def _read_lists(path):
    """Return the two lists of a file, as lists of (code point, further fields)."""
    lines = [line.split() for line in path.read_text(encoding="ascii").split("\n")]
    end = 2 + int(lines[1][0])
    lists = lines[2:end], lines[end + 1 : -1]
    return [[(int(code, 16), fields) for code, *fields in rows] for rows in lists]


def _to_text(replacements):
    return {code: "".join([chr(int(x, 16)) for x in parts]) for code, parts in replacements}


@functools.cache
def _read_cases():
    """Return the replacements for lower-casing alone and for accent stripping alone."""
    return tuple(map(_to_text, _read_lists(CASES_PATH)))


_STARTS, _REPLACEMENTS = _read_lists(TABLE_PATH)
_REPLACEMENTS = _to_text(_REPLACEMENTS)
_RUN_STARTS = [code for code, _ in _STARTS]
# (properties, range of code points) of each run.
RUNS = [
    ((rule, sigma, int(order)), range(code, end))
    for (code, (rule, sigma, order)), end in zip(_STARTS, [*_RUN_STARTS[1:], 0x110000], strict=True)
]


@functools.cache
def properties(code):
    """Return (RULE, SIGMA, ORDER) of a code point."""
    return RUNS[bisect_right(_RUN_STARTS, code) - 1][0]


def normalize_char(code, do_lower_case, strip_accents, tokenize_chinese_chars=True):
    """Return the str that replaces a code point, without context rules."""
    rule = properties(code)[0]
    cased = _CASED.get(rule, "{}").format(chr(code))
    uncased = "" if rule == "a" else _REPLACEMENTS.get(code, cased)
    if rule == "h":
        rest, final = divmod(code - _FIRST_SYLLABLE, 28)
        initial, medial = divmod(rest, 21)
        uncased = chr(_FIRST_INITIAL + initial) + chr(_FIRST_MEDIAL + medial)
        uncased += chr(_BEFORE_FIRST_FINAL + final) if final else ""
    if do_lower_case == strip_accents:
        result = uncased if do_lower_case else cased
    elif do_lower_case:
        result = _read_cases()[0].get(code) or cased
    else:
        lowered, stripped = _read_cases()
        result = stripped.get(code) or (chr(code) if code in lowered else uncased)
    if not tokenize_chinese_chars and any(first <= code <= last for first, last in IDEOGRAPHS):
        return result.strip(" ")
    return result


class _CharacterTable(dict):
    """Dict of code point -> `normalize_char`, computed on first use, for `str.translate`."""

    def __init__(self, *rules):
        self._rules = rules

    def __missing__(self, code):
        result = self[code] = normalize_char(code, *self._rules)
        return result


# Marks that uncased text keeps, in canonical order: code point -> rank.
SORTED_MARKS = {code: order for (_, _, order), codes in RUNS if order > 1 for code in codes}

# Musical notes that decompose to such marks: code point -> decomposition.
MUSICAL_NOTES = {
    code: result
    for code, result in _REPLACEMENTS.items()
    if len(result) > 1 and any(ord(part) in SORTED_MARKS for part in result)
}

# Almost all of these marks have the same rank, and marks of equal rank keep their order, so only
# text with one of the few other marks needs sorting.
_COMMON_RANK = Counter(SORTED_MARKS.values()).most_common(1)[0][0]
_RARE_MARKS = [code for code, rank in SORTED_MARKS.items() if rank != _COMMON_RANK]
_SORTED_CHARACTERS = "".join(map(chr, [*_RARE_MARKS, *MUSICAL_NOTES]))

# All marks that accent stripping removes.
ACCENTS = "".join(chr(code) for (rule, _, _), codes in RUNS if rule == "a" for code in codes)


def context_characters(do_lower_case, strip_accents):
    """Return the characters to which context rules apply, as a str."""
    return SIGMA * do_lower_case + _SORTED_CHARACTERS * strip_accents


@functools.cache
def _rules(do_lower_case, strip_accents, tokenize_chinese_chars):
    """Return the table for single characters and a pattern for characters with context rules."""
    strip_accents = do_lower_case if strip_accents is None else strip_accents
    characters = context_characters(do_lower_case, strip_accents)
    table = _CharacterTable(do_lower_case, strip_accents, tokenize_chinese_chars)
    return table, re.compile(f"[{characters}]") if characters else None


def normalize(text, do_lower_case, strip_accents=None, tokenize_chinese_chars=True):
    """Normalize `text` and separate its words by spaces; arguments as for `BasicTokenizer`."""
    table, context = _rules(do_lower_case, strip_accents, tokenize_chinese_chars)
    if context and context.search(text):
        text = resolve_context(text, do_lower_case, strip_accents)[0]
    return text.translate(table)


def normalize_with_offsets(text, do_lower_case, strip_accents=None, tokenize_chinese_chars=True):
    """Return the result of `normalize` and the index in `text` of each of its characters."""
    table, context = _rules(do_lower_case, strip_accents, tokenize_chinese_chars)
    resolved, indices = text, range(len(text))
    if context and context.search(text):
        resolved, indices = resolve_context(text, do_lower_case, strip_accents)
    parts = [table[ord(char)] for char in resolved]
    return "".join(parts), [i for part, i in zip(parts, indices, strict=True) for _ in part]


def span_ends(text, strip_accents):
    """Return the end of each character's span, which includes the stripped accents after it."""
    ends = list(range(1, len(text) + 1))
    kept = None
    for index, char in enumerate(text if strip_accents else ""):
        rule = properties(ord(char))[0]
        if rule not in "ad":
            kept = index
        elif rule == "a" and kept is not None:
            ends[kept] = index + 1
    return ends


def resolve_context(text, do_lower_case=True, strip_accents=None):
    """Apply the rules that depend on neighboring characters.

    With lower-casing, a capital sigma at the end of a word becomes the final sigma. With accent
    stripping, musical notes are decomposed and the remaining marks are put into canonical order.
    Returns the str, and a list of the index in `text` of each of its characters.
    """
    parts, sources = [], []
    for index, char in enumerate(text):
        if do_lower_case and char == SIGMA and _is_final(text, index):
            char = FINAL_SIGMA
        decomposed = char if strip_accents is False else MUSICAL_NOTES.get(ord(char), char)
        parts += decomposed
        sources += [index] * len(decomposed)
    if strip_accents is False:
        return "".join(parts), sources
    # A stable sort within each run, which starts at a character that no mark moves across.
    run, keys = 0, []
    for part in parts:
        rank = properties(ord(part))[2]
        run += rank == 0
        keys.append((run, rank))
    order = sorted(range(len(parts)), key=keys.__getitem__)
    return "".join([parts[index] for index in order]), [sources[index] for index in order]


def _is_final(text, index):
    """Return whether the sigma at `index` follows a cased character but does not precede one."""

    def next_is_cased(indices):
        sigmas = (properties(ord(text[other]))[1] for other in indices)
        return next((sigma for sigma in sigmas if sigma != "i"), None) == "c"

    before, after = range(index - 1, -1, -1), range(index + 1, len(text))
    return next_is_cased(before) and not next_is_cased(after)
