"""Tags of words and the spans that they stand for.

A tag is "O", outside of any span, or a prefix, a dash and the span's label: "B-PER". What the
prefixes mean is the scheme (Ramshaw and Marcus, cmp-lg/9505040):

- iob1: every word of a span has I, but for the first of one that follows another of the same label
  at once; that has B. CoNLL-2003 comes so.
- iob2: the first word of every span has B, the others I.
- iobes: B begins and E ends a span of several words, with I between; S is a span of one word.
  BILOU is the same with L for E and U for S, and is not read.
- none: a tag is a name without structure, as of parts of speech; each word is a span of its own.
"""

from typing import NamedTuple

from bert_tf.errors import UserError

OUTSIDE = "O"
SCHEMES = ("iob1", "iob2", "iobes", "none")

_PREFIXES = {"iob1": ("B", "I"), "iob2": ("B", "I"), "iobes": ("B", "I", "E", "S")}


class Span(NamedTuple):
    """A label and the words that it is of: from `start` up to, and not with, `end`."""

    label: str
    start: int
    end: int


def split(tag):
    """(prefix, label) of a tag; ("O", "") of one that is outside."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def begins(tag, before):
    """Whether a tag begins a span after the tag `before`: conlleval's rules, seqeval's of E and S.

    It takes tags of any scheme, and what fits none, as a model may make: an I after nothing, or
    after another label, begins a span too.
    """
    prefix, label = split(tag)
    prefix_before, label_before = split(before)
    if tag == OUTSIDE:
        return False
    if before == OUTSIDE or label != label_before:
        return True
    return prefix in ("B", "S") or prefix_before in ("E", "S")


def spans_of(tags, scheme="iob2"):
    """The `Span`s of a sentence's tags, by `begins`; with "none" one of each word."""
    if scheme == "none":
        return [Span(tag, i, i + 1) for i, tag in enumerate(tags)]
    spans, before = [], OUTSIDE
    for i, tag in enumerate(tags):
        if begins(tag, before):
            spans.append(Span(split(tag)[1], i, i + 1))
        elif tag != OUTSIDE:
            spans[-1] = spans[-1]._replace(end=i + 1)
        before = tag
    return spans


def tags_of(spans, length, scheme):
    """The tags of a sentence of `length` words; `spans` are in order and do not overlap."""
    tags = [OUTSIDE] * length
    before = None
    for span in spans:
        label, start, end = span
        for i in range(start, end):
            tags[i] = f"I-{label}"
        touches = before and before.end == start and before.label == label
        if scheme == "none":
            tags[start] = label
        elif scheme == "iobes":
            tags[end - 1] = f"E-{label}"
            tags[start] = f"{'B' if end - start > 1 else 'S'}-{label}"
        elif scheme == "iob2" or touches:
            tags[start] = f"B-{label}"
        before = span
    return tags


def converted(tags, before, after):
    """A sentence's tags of the scheme `before` as those of the scheme `after`."""
    return tags if before == after else tags_of(spans_of(tags, before), len(tags), after)


def wrong_tag(tags, scheme):
    """The number of the first tag that the scheme does not have there; None if all fit."""
    if scheme == "none":
        return None
    fit = tags_of(spans_of(tags), len(tags), scheme)
    is_wrong = (x != fit[i] or (x != OUTSIDE and not split(x)[1]) for i, x in enumerate(tags))
    return next((i for i, wrong in enumerate(is_wrong) if wrong), None)


def find_scheme(sentences):
    """The scheme of sentences' tags: that which most sentences fit, of several the first.

    Where no two spans of one label touch, iob1 has no B and iob2 has one for each span; so only
    tags without any span leave it open, and then it does not matter. Tags are names ("none") only
    if not one of them begins with a prefix: one odd tag among spans is a mistake.

    Raises:
      UserError: if the tags are BILOU's.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {OUTSIDE}
    dashed = {tag: split(tag)[0] for tag in sorted(tags) if "-" in tag}
    lasts = [tag for tag, prefix in dashed.items() if prefix in ("L", "U")]
    if lasts and all(dashed.get(tag) in (*_PREFIXES["iobes"], "L", "U") for tag in tags):
        raise UserError(
            f"the tags are BILOU's, by {lasts[0]}; iobes is the same with E for L and S for U "
            "(`tag_scheme=none` takes them for names)"
        )
    if tags and not any(prefix in _PREFIXES["iobes"] for prefix in dashed.values()):
        return "none"
    return max(
        _PREFIXES, key=lambda scheme: sum(wrong_tag(tags, scheme) is None for tags in sentences)
    )


def check_goes(flag, scheme, other):
    """Raises UserError if of two schemes one has spans and the other not; `flag` gave the first."""
    if (scheme == "none") != (other == "none"):
        raise UserError(f"`{flag}={scheme}` does not go with tags of the scheme {other}")


def tags_with(labels, scheme):
    """All tags of a scheme in the order of their ids, O first, with labels in the order given."""
    if scheme == "none":
        return tuple(labels)
    return (OUTSIDE, *(f"{prefix}-{x}" for x in labels for prefix in _PREFIXES[scheme]))
