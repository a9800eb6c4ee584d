"""Precision, recall and F1 of tagged spans, as in conlleval and seqeval."""

import collections

from bert_tf.tasks.token_classification.schemes import spans_from_tags


class SpanCounts:
    """Counts spans for precision, recall and F1, as in conlleval (CoNLL-2003) and seqeval.

    A predicted span is correct if the data contain a span with the same label and the same words.
    For iob1 and iob2, the results equal the official conlleval; for iobes, whose S tags conlleval
    does not know, they equal seqeval, which pip cannot build in an empty environment.
    """

    def __init__(self, true, predicted, scheme="iob2"):
        """Count the spans of each label, given two lists of lists of tags."""
        self.true, self.predicted, self.correct = (collections.Counter() for _ in range(3))
        for tags in zip(true, predicted, strict=True):
            expected, found = (set(spans_from_tags(x, scheme)) for x in tags)
            self.true.update(span.label for span in expected)
            self.predicted.update(span.label for span in found)
            self.correct.update(span.label for span in expected & found)

    def precision_recall_f1(self, *labels):
        """Return (precision, recall, F1) of the given labels, or of all; 0 if undefined."""
        correct, predicted, true = (
            sum(counter[label] for label in labels or counter)
            for counter in (self.correct, self.predicted, self.true)
        )
        precision, recall = correct / max(predicted, 1), correct / max(true, 1)
        return precision, recall, 2 * correct / max(predicted + true, 1)

    def report(self):
        labels = sorted({*self.true, *self.predicted})
        width = max(map(len, (*labels, "all")), default=0)
        lines = [f"{'':{width}}  precision  recall      F1  spans  found"]
        for name, chosen in [*((label, [label]) for label in labels), ("all", labels)]:
            precision, recall, f1 = self.precision_recall_f1(*chosen)
            true, found = (sum(x[label] for label in chosen) for x in (self.true, self.predicted))
            scores = f"{precision:9.4f}  {recall:6.4f}  {f1:6.4f}"
            lines.append(f"{name:{width}}  {scores}  {true:5}  {found:5}")
        return "\n".join(lines) + "\n"
