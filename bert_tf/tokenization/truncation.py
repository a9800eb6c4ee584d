"""Truncating texts that do not fit into a sequence, and reporting their number in one line."""

from bert_tf import console


def truncate_pair(ids_a, ids_b, limit):
    """Shorten two lists in place to `limit` together, always the longer one from its end."""
    while len(ids_a) + len(ids_b) > limit:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()


class LengthCounter:
    """Counts texts by whether they exceed a number of tokens.

    >>> lengths = LengthCounter(128)
    >>> lengths.add(431)
    >>> lengths.counts
    {'texts': 1, 'truncated': 1, 'longest': 431}
    """

    def __init__(self, limit):
        """`limit` is the maximum number of tokens, including [CLS] and [SEP]."""
        self.limit = limit
        self.counts = {"texts": 0, "truncated": 0, "longest": 0}

    def add(self, length):
        """Add a text of this many tokens, including [CLS] and [SEP]."""
        self.counts["texts"] += 1
        self.counts["truncated"] += length > self.limit
        self.counts["longest"] = max(self.counts["longest"], length)


def log_truncated(where, counts, limit, max_limit=None, advice="", unit="texts"):
    """Log how many texts were truncated, if any, and what to do about it.

    Args:
      where: the split, or another description of the texts.
      counts: the `counts` of a `LengthCounter`.
      limit: its limit, the `max_seq_length`.
      max_limit: the model's `max_position_embeddings`, None if unknown.
      advice: an option that reads all of a text, with its value, or "".
      unit: the plural noun for the texts.
    """
    count, total = counts["truncated"], counts["texts"]
    if not count:
        return
    advices = []
    if max_limit is None or max_limit > limit:
        most = f" (at most {max_limit})" if max_limit else ""
        advices.append(f"a larger `max_seq_length`{most} keeps more of them")
    if advice:
        advices.append(f"`{advice}` reads them in windows")
    console.warning(
        "%s: %d of %d %s (%.1f%%) have more than %d tokens and are truncated, the longest has %d%s",
        where, count, total, unit, 100.0 * count / total, limit, counts["longest"],
        "; " + ", ".join(advices) if advices else "",
    )  # fmt: skip
