"""Tagging schemes: conversion between the tags of words and labeled spans.

A tag is "O" for a word outside of any span, or a prefix, a hyphen and the label of the span:
"B-PER". The scheme defines the prefixes (Ramshaw and Marcus 1995, cmp-lg/9505040):

- iob1: I for all words of a span, but B for the first word if the span immediately follows a span
  with the same label. CoNLL-2003 uses it.
- iob2: B for the first word of every span, I for the others.
- iobes: B for the first, E for the last and I for the other words of a span; S for a span of one
  word. BILOU is the same with L for E and U for S.
- io: tags are plain labels and "O". Neighboring words with one label are a span.
- none: tags are plain labels, such as parts of speech. Each word is a span.

Tags may have an underscore instead of the hyphen.
"""

import functools
import re
from typing import NamedTuple

from bert_tf.errors import UserError

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


def starts_span(tag, previous, scheme="iob2"):
    """Return whether a span starts at a tag, given the previous tag.

    B and I follow conlleval, E and S seqeval. An I after O or a different label starts a span.
    """
    prefix, label = split_tag(tag, scheme)
    previous_prefix, previous_label = split_tag(previous, scheme)
    if tag == OUTSIDE:
        return False
    if previous == OUTSIDE or label != previous_label:
        return True
    return prefix in ("B", "S") or previous_prefix in ("E", "S")


def spans_from_tags(tags, scheme="iob2"):
    spans, previous = [], OUTSIDE
    for i, tag in enumerate(tags):
        if starts_span(tag, previous, scheme):
            spans.append(Span(split_tag(tag, scheme)[1], i, i + 1))
        elif tag != OUTSIDE:
            spans[-1] = spans[-1]._replace(end=i + 1)
        previous = tag
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


def first_invalid_tag(tags, scheme):
    """Return the index of the first tag that is invalid in the scheme, None if all are valid."""
    if scheme in PLAIN_SCHEMES:
        return None
    tags = [normalize(tag) for tag in tags]
    valid = tags_from_spans(spans_from_tags(tags), len(tags), scheme)
    for i, tag in enumerate(tags):
        if tag != valid[i] or (tag != OUTSIDE and not split_tag(tag)[1]):
            return i
    return None


def infer_scheme(sentences, default="iob1"):
    """Return the scheme in which most sentences are valid.

    It is "none" or, if there is an O, "io" only if no tag has a prefix. Sentences without spans are
    valid in all schemes; `default` wins ties.
    """
    found = {tag for sentence in sentences for tag in sentence}
    tags = found - {OUTSIDE}
    prefixed = set(filter(_PREFIXED.fullmatch, tags))
    if not tags:
        return default
    # "I_love" may be a label, unless all tags are of this form.
    if prefixed != tags and not any(tag[1] == "-" for tag in prefixed):
        return "io" if OUTSIDE in found else "none"
    return max(
        (default, *_PREFIXES) if default != "io" else _PREFIXES,
        key=lambda scheme: sum(first_invalid_tag(tags, scheme) is None for tags in sentences),
    )


def check_compatible(argument, scheme, other):
    """Raise UserError if only one of two schemes has spans; `argument` names the first."""
    if (scheme == "none") != (other == "none"):
        raise UserError(f"`{argument}={scheme}` cannot be combined with tags in the scheme {other}")


def tag_names(labels, scheme):
    """Return all tags of a scheme in the order of their ids: O first, then label by label."""
    if scheme in PLAIN_SCHEMES:
        return (*[OUTSIDE] * (scheme == "io"), *labels)
    return (OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in _PREFIXES[scheme]))
