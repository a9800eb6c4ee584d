"""Precision, recall and F1 of spans, as conlleval of CoNLL-2003 and seqeval count them.

A span is right if one of the data has the same label, begins and ends at the same words. Of tags
with B and I the figures are those of the official conlleval. It has no rule for S, so that two
spans of one word side by side are one to it; of IOBES they are those of seqeval.
tests/test_tagging.py compares both. seqeval is no requirement because pip cannot build its only
release, 1.2.2, in an empty environment any more.
"""

import collections

import numpy as np

from bert_tf.tasks import metrics
from bert_tf.tasks.token_classification.schemes import spans_of


class Counts:
    """How many spans there are, were found and are right: by label, three `collections.Counter`."""

    def __init__(self):
        self.true, self.found, self.right = (collections.Counter() for _ in range(3))

    def add(self, true, found):
        """Counts a sentence: two lists of tags."""
        true, found = set(spans_of(true)), set(spans_of(found))
        for counter, spans in ((self.true, true), (self.found, found), (self.right, true & found)):
            counter.update(span.label for span in spans)

    def figures(self, *labels):
        """(precision, recall, F1) over these labels, all if none is given; 0 where undefined."""
        right, found, true = (
            sum(counter[label] for label in labels or counter)
            for counter in (self.right, self.found, self.true)
        )
        precision, recall = right / max(found, 1), right / max(true, 1)
        return precision, recall, 2 * right / max(found + true, 1)

    def report(self):
        """A table of each label's figures, as text."""
        labels = sorted({*self.true, *self.found})
        width = max(map(len, (*labels, "all")), default=0)
        lines = [f"{'':{width}}  precision  recall      F1  spans  found"]
        for name, chosen in [*((label, [label]) for label in labels), ("all", labels)]:
            precision, recall, f1 = self.figures(*chosen)
            counts = (sum(counter[x] for x in chosen) for counter in (self.true, self.found))
            lines.append(
                f"{name:{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  "
                + "  ".join(f"{count:5}" for count in counts)
            )
        return "\n".join(lines) + "\n"


def count(true, found):
    """The `Counts` of sentences, two lists of lists of tags."""
    counts = Counts()
    for one, other in zip(true, found, strict=True):
        counts.add(one, other)
    return counts


def report(true, found, scheme):
    """A table of each label's figures, as text: of spans, or of the tags themselves by "none"."""
    if scheme != "none":
        return count(true, found).report()
    names = sorted(
        {tag for sentences in (true, found) for sentence in sentences for tag in sentence}
    )
    ids = {name: number for number, name in enumerate(names)}
    flat = ([ids[tag] for sentence in sentences for tag in sentence] for sentences in (true, found))
    return metrics.report(*flat, names)


def accuracy(true, found):
    """The share of words whose tag is right, of two lists of lists of tags."""
    return float(np.mean([x == y for a, b in zip(true, found, strict=True)
                          for x, y in zip(a, b, strict=True)]))  # fmt: skip
