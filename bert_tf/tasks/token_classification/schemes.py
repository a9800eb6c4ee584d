"""Tagging schemes: conversion between the tags of words and labeled spans.

A tag is "O" for a word outside of any span, or a prefix, a hyphen and the label of the span:
"B-PER". The scheme defines the prefixes (Ramshaw and Marcus 1995, cmp-lg/9505040):

- iob2: B for the first word of every span, I for the others.
- iob1: as iob2, but B only if the span immediately follows a span with the same label. CoNLL-2003
  uses it. The same rule reads both; only the output differs.
- iobes: B for the first, E for the last and I for the other words of a span; S for a span of one
  word. BILOU is the same with L for E and U for S.
- io: tags are plain labels and "O". Neighboring words with one label are a span.
- none: tags are plain labels, such as parts of speech. Each word is a span.

Tags may have an underscore instead of the hyphen.
"""

import functools
import re
from typing import NamedTuple

OUTSIDE = "O"

_PREFIXES = {"iob1": ("B", "I"), "iob2": ("B", "I"), "iobes": ("B", "I", "E", "S")}
PLAIN_SCHEMES = ("io", "none")

_BILOU = str.maketrans("LU", "ES")
_PREFIXED = re.compile("([BIESLU])[-_](.+)")


class Span(NamedTuple):
    """A labeled range of words; `end` is exclusive."""

    label: str
    start: int
    end: int


@functools.lru_cache(1024)
def normalize(tag, scheme="iob2"):
    """Return a tag with a hyphen, and E and S for BILOU's L and U."""
    match = None if scheme in PLAIN_SCHEMES else _PREFIXED.fullmatch(tag)
    return f"{match[1].translate(_BILOU)}-{match[2]}" if match else tag


@functools.lru_cache(1024)
def split_tag(tag, scheme="iob2"):
    """Return (prefix, label) of a tag; ("O", "") for "O"."""
    if tag != OUTSIDE and scheme in PLAIN_SCHEMES:
        return ("I" if scheme == "io" else "S"), tag
    prefix, _, label = normalize(tag).partition("-")
    return prefix, label


def spans_from_tags(tags, scheme="iob2"):
    """Return the `Span`s of the tags of a sentence; any order of tags is valid.

    B and I follow conlleval, E and S seqeval: an I after O or a different label starts a span, as
    in IOB1.
    """
    spans, previous = [], split_tag(OUTSIDE)
    for i, (prefix, label) in enumerate(split_tag(tag, scheme) for tag in tags):
        starts = label != previous[1] or prefix in ("B", "S") or previous[0] in ("E", "S")
        if label and starts:
            spans.append(Span(label, i, i + 1))
        elif label:
            spans[-1] = spans[-1]._replace(end=i + 1)
        previous = prefix, label
    return spans


def tags_from_spans(spans, length, scheme):
    """Convert ordered, non-overlapping spans to the tags of a sentence with `length` words."""
    tags, previous = [OUTSIDE] * length, None
    for span in spans:
        label, start, end = span
        tags[start:end] = [f"I-{label}"] * (end - start)
        is_adjacent = previous and previous.end == start and previous.label == label
        if scheme in PLAIN_SCHEMES:
            tags[start:end] = [label] * (end - start)
        elif scheme == "iobes":
            tags[end - 1] = f"E-{label}"
            tags[start] = f"{'B' if end - start > 1 else 'S'}-{label}"
        elif scheme == "iob2" or is_adjacent:
            tags[start] = f"B-{label}"
        previous = span
    return tags


def convert_tags(tags, source_scheme, target_scheme):
    if source_scheme == target_scheme:
        return [normalize(tag, source_scheme) for tag in tags]
    return tags_from_spans(spans_from_tags(tags, source_scheme), len(tags), target_scheme)


def is_iob1(tags):
    """Return whether a span of a sentence with B and I tags begins with I."""
    return convert_tags(tags, "iob1", "iob2") != convert_tags(tags, "iob2", "iob2")


def is_tag(tag, scheme="iob2"):
    """Return whether a tag is O or has a label, after a prefix if the scheme has prefixes."""
    return tag == OUTSIDE or scheme in PLAIN_SCHEMES or _PREFIXED.fullmatch(tag) is not None


def infer_scheme(tags, scheme=None):
    """Return the scheme of a set of tags: "iob2" also for IOB1, which has the same tags.

    Tags are plain if none has a prefix with a hyphen, or all prefixes are E or L, which end a span.
    "I_love" may be a plain label, unless all tags but O have this form. The `scheme` of the model
    decides whether plain tags mark entities; if it is None, they do if there is an O.
    """
    if scheme == "none":
        return "none"
    labels = {tag for tag in tags if tag != OUTSIDE}
    prefixed = set(filter(is_tag, labels))
    is_plain = prefixed != labels and not any(tag[1] == "-" for tag in prefixed)
    if is_plain or (labels and all(tag[0] in "EL" for tag in prefixed)):
        return "io" if scheme or OUTSIDE in tags else "none"
    return "iob2" if all(tag[0] in "BI" for tag in prefixed) else "iobes"


def tag_names(labels, scheme):
    """Return all tags of a scheme in the order of their ids: O first, then label by label."""
    if scheme in PLAIN_SCHEMES:
        return (OUTSIDE, *labels) if scheme == "io" else tuple(labels)
    return (OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in _PREFIXES[scheme]))
