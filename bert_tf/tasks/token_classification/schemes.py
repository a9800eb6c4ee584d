"""Tagging schemes: conversion between the tags of words and labeled spans.

A tag is "O" for a word outside of any span, or a prefix, a hyphen and the label of the span:
"B-PER". The scheme defines the prefixes (Ramshaw and Marcus 1995, cmp-lg/9505040):

- iob1: I for all words of a span, but B for the first word if the span immediately follows a span
  with the same label. CoNLL-2003 uses it.
- iob2: B for the first word of every span, I for the others.
- iobes: B for the first, E for the last and I for the other words of a span; S for a span of one
  word. BILOU, which has L for E and U for S, is not supported.
- none: tags are plain labels, such as parts of speech. Each word is a span.
"""

from typing import NamedTuple

from bert_tf.errors import UserError

OUTSIDE = "O"

_PREFIXES = {"iob1": ("B", "I"), "iob2": ("B", "I"), "iobes": ("B", "I", "E", "S")}


class Span(NamedTuple):
    """A labeled range of words; `end` is exclusive."""

    label: str
    start: int
    end: int


def split_tag(tag):
    """Return (prefix, label) of a tag; ("O", "") for "O"."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def starts_span(tag, previous):
    """Return whether a span starts at a tag, given the previous tag.

    B and I follow conlleval, E and S seqeval. An I after O or a different label starts a span.
    """
    prefix, label = split_tag(tag)
    previous_prefix, previous_label = split_tag(previous)
    if tag == OUTSIDE:
        return False
    if previous == OUTSIDE or label != previous_label:
        return True
    return prefix in ("B", "S") or previous_prefix in ("E", "S")


def spans_from_tags(tags, scheme="iob2"):
    if scheme == "none":
        return [Span(tag, i, i + 1) for i, tag in enumerate(tags)]
    spans, previous = [], OUTSIDE
    for i, tag in enumerate(tags):
        if starts_span(tag, previous):
            spans.append(Span(split_tag(tag)[1], i, i + 1))
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
        if scheme == "none":
            tags[start] = label
        elif scheme == "iobes":
            tags[end - 1] = f"E-{label}"
            tags[start] = f"{'B' if end - start > 1 else 'S'}-{label}"
        elif scheme == "iob2" or is_adjacent:
            tags[start] = f"B-{label}"
        previous = span
    return tags


def convert_tags(tags, source_scheme, target_scheme):
    if source_scheme == target_scheme:
        return tags
    return tags_from_spans(spans_from_tags(tags, source_scheme), len(tags), target_scheme)


def first_invalid_tag(tags, scheme):
    """Return the index of the first tag that is invalid in the scheme, None if all are valid."""
    if scheme == "none":
        return None
    valid = tags_from_spans(spans_from_tags(tags), len(tags), scheme)
    for i, tag in enumerate(tags):
        if tag != valid[i] or (tag != OUTSIDE and not split_tag(tag)[1]):
            return i
    return None


def infer_scheme(sentences, default="iob1"):
    """Return the scheme in which most sentences are valid; "none" only if no tag has a prefix.

    Sentences without spans are valid in all schemes; `default` wins ties.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {OUTSIDE}
    prefixes = {tag: split_tag(tag)[0] for tag in sorted(tags) if "-" in tag}
    bilou = [tag for tag, prefix in prefixes.items() if prefix in ("L", "U")]
    if bilou and all(prefixes.get(tag) in (*_PREFIXES["iobes"], "L", "U") for tag in tags):
        raise UserError(
            f"found tags such as {bilou[0]} of the BILOU scheme, which is not supported; replace L "
            "with E and U with S to get iobes, or use `tag_scheme=none`"
        )
    if tags and not any(prefix in _PREFIXES["iobes"] for prefix in prefixes.values()):
        return "none"
    return max(
        (default, *_PREFIXES),
        key=lambda scheme: sum(first_invalid_tag(tags, scheme) is None for tags in sentences),
    )


def check_compatible(argument, scheme, other):
    """Raise UserError if only one of two schemes has spans; `argument` names the first."""
    if (scheme == "none") != (other == "none"):
        raise UserError(f"`{argument}={scheme}` cannot be combined with tags in the scheme {other}")


def tag_names(labels, scheme):
    """Return all tags of a scheme in the order of their ids: O first, then label by label."""
    if scheme == "none":
        return tuple(labels)
    return (OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in _PREFIXES[scheme]))
