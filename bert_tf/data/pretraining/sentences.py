"""Running text to sentences, by a rule for languages that end them as English or Chinese do.

A sentence ends

1. at the end of a line;
2. behind a full stop, "!", "?" or "…", with the quotes and brackets that close behind it, if white
   space follows and then anything but a lower-case letter; but not at the full stop of one of
   `ABBREVIATIONS`, nor of a single capital letter, which is a name's initial ("J. Smith");
3. behind "。", "！", "？", "｡", with the quotes and brackets that close behind them.
"""

import re

# fmt: off
ABBREVIATIONS = frozenset((
    "Mr", "Mrs", "Ms", "Dr", "Prof", "Rev", "Hon", "St", "Gen", "Col", "Capt", "Lt", "Sgt", "Sen",
    "Rep", "Gov", "Jr", "Sr", "No", "Nos", "vs", "cf", "e.g", "i.e", "al", "Fig", "Figs", "Eq",
    "Sec", "Vol", "pp", "ed", "eds", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept",
    "Oct", "Nov", "Dec", "approx", "dept", "est",
))
# fmt: on

_CLOSING = "\"'”’»)\\]」』）】"
# Not from within a run of these, which would be tried from each of its characters.
_END = re.compile(rf"(?<![.!?…])([.!?…]+)[{_CLOSING}]*\s+(?=(\S))|[。！？｡]+[{_CLOSING}]*\s*")
_LAST_WORD = re.compile(r"[\w.]*$")


def split(text):
    """Returns the list of sentences of a text, without the white space around them."""
    return [sentence for line in text.split("\n") for sentence in _of_line(line)]


def _of_line(line):
    start = 0
    for end in _END.finditer(line):
        if end[1] and (end[2].islower() or (end[1] == "." and _is_short(line, start, end.start()))):
            continue
        if sentence := line[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := line[start:].strip():
        yield sentence


def _is_short(line, start, stop):
    """Whether the word that ends at `stop` is one that is written with a full stop."""
    # Words that are longer than this are no abbreviations.
    word = _LAST_WORD.search(line, max(start, stop - 10), stop)[0]
    last = word.rpartition(".")[2]
    return word in ABBREVIATIONS or (len(last) == 1 and last.isupper())
