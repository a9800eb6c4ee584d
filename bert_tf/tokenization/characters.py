"""What a tokenizer makes of each character, before words are cut into pieces.

Everything here follows from the frozen table (`table.py`); Python's own Unicode data, which differ
from one Python to the next, are not asked.
"""

import re
from collections import Counter

from bert_tf.tokenization import table


class _Results(dict):
    """Code point -> text for `str.translate`, worked out the first time that it is asked for."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, code):
        result = self[code] = self._function(code)
        return result


_CASED = _Results(table.cased)
_UNCASED = _Results(table.uncased)
_PROPERTIES = _Results(table.lookup)

SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"

# Marks that stay in uncased text and that Unicode sorts: code point -> place.
MARKS = {
    code: place
    for (_, _, place), first, end in zip(table.RUNS, table.FIRSTS, table.FIRSTS[1:], strict=False)
    if place > 1
    for code in range(first, end)
}

# Musical notes that hold such marks: code point -> what it is taken apart into.
NOTES = {
    code: result
    for code, result in table.MAPPED.items()
    if len(result) > 1 and any(ord(part) in MARKS for part in result)
}

# Nearly all of the marks have one place, and marks of one place keep their order: so text without
# any other mark needs no sorting. This leaves a few characters whose neighbours matter, all rare.
_USUAL_PLACE = Counter(MARKS.values()).most_common(1)[0][0]
NEED_NEIGHBOURS = "".join(
    [
        SIGMA,
        *(chr(code) for code, place in MARKS.items() if place != _USUAL_PLACE),
        *map(chr, NOTES),
    ]
)
_NEED_NEIGHBOURS = re.compile(f"[{NEED_NEIGHBOURS}]")


def normalize(text, do_lower_case):
    """Returns `text` with its words, as the 2018 release cuts them, between spaces.

    Args:
      text: a str.
      do_lower_case: True to lower the case and strip accents as well.

    Returns:
      A str; `.split()` of it gives the words.
    """
    if not do_lower_case:
        return text.translate(_CASED)
    if _NEED_NEIGHBOURS.search(text):
        text = arrange(text)[0]
    return text.translate(_UNCASED)


def arrange(text):
    """Settles what depends on neighbours, so that the rest goes one character at a time.

    A capital sigma at the end of a word becomes the final sigma, notes are taken apart, and the
    marks that stay in uncased text are put in the order that canonical decomposition gives them.

    Args:
      text: a str, to be uncased.

    Returns:
      (the arranged str, for each of its characters the index in `text` that it comes from)
    """
    parts, sources = [], []
    for index, char in enumerate(text):
        code = ord(char)
        if char == SIGMA and _is_final(text, index):
            char = FINAL_SIGMA
        for part in NOTES.get(code, char):
            parts.append(part)
            sources.append(index)
    # A stable sort within each run between two characters that nothing passes.
    run, keys = 0, []
    for part in parts:
        place = _PROPERTIES[ord(part)][2]
        run += place == 0
        keys.append((run, place))
    order = sorted(range(len(parts)), key=keys.__getitem__)
    return "".join([parts[index] for index in order]), [sources[index] for index in order]


def _is_final(text, index):
    """Whether the sigma there follows a cased character and comes before none."""

    def meets_cased(indices):
        for other in indices:
            sigma = _PROPERTIES[ord(text[other])][1]
            if sigma != "i":
                return sigma == "c"
        return False

    before, after = range(index - 1, -1, -1), range(index + 1, len(text))
    return meets_cased(before) and not meets_cased(after)


def normalize_with_sources(text, do_lower_case):
    """As `normalize`, and says where each character comes from.

    Args:
      text: a str.
      do_lower_case: as in `normalize`.

    Returns:
      (the normalized str, for each of its characters the index in `text` that it comes from)
    """
    results, indices = _CASED, range(len(text))
    arranged = text
    if do_lower_case:
        results = _UNCASED
        if _NEED_NEIGHBOURS.search(text):
            arranged, indices = arrange(text)
    parts, sources = [], []
    for char, index in zip(arranged, indices, strict=True):
        result = results[ord(char)]
        parts.append(result)
        sources += [index] * len(result)
    return "".join(parts), sources


def ends(text, do_lower_case):
    """Where the span of each character ends: after the accents that were stripped behind it.

    Args:
      text: a str.
      do_lower_case: as in `normalize`.

    Returns:
      A list: for each character of `text` the index after it, or after the last stripped accent
      that follows it with nothing but dropped characters between.
    """
    found = list(range(1, len(text) + 1))
    if do_lower_case:
        end = None
        for index in range(len(text) - 1, -1, -1):
            rule = _PROPERTIES[ord(text[index])][0]
            if rule == "a":
                end = end or index + 1
            elif rule != "d":
                found[index] = end or index + 1
                end = None
    return found
