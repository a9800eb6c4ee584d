"""Pack token ids: truncation, sliding windows, masks and segments."""

import functools
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.tokenization.settings import CLS, SEP


def truncate_pair(ids_a, ids_b, limit):
    """Truncate two lists in place to `limit` ids in total, by popping from the longer one."""
    while len(ids_a) + len(ids_b) > limit:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()


def truncate_at_random(a_start, a_end, b_start, b_end, limit, rng):
    """Truncate as the release does in pre-training, at the front or the back; return new bounds."""
    random = rng.random
    for _ in range(a_end - a_start + b_end - b_start - limit):
        if a_end - a_start > b_end - b_start:
            if random() < 0.5:
                a_start += 1
            else:
                a_end -= 1
        elif random() < 0.5:
            b_start += 1
        else:
            b_end -= 1
    return a_start, a_end, b_start, b_end


def pack_pair(ids_a, ids_b, tokenizer, max_seq_length, lengths=None, pad=True):
    """Pack `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated in place as in the release.

    Returns a dict of lists of up to `max_seq_length` ints: `input_ids`, `input_mask` and
    `segment_ids`. `lengths` is a `LengthCounter` for the length before truncation, or None.
    """
    if lengths:
        lengths.add(len(ids_a) + len(ids_b) + (3 if ids_b else 2))
    if ids_b:
        truncate_pair(ids_a, ids_b, max_seq_length - 3)
    del ids_a[max_seq_length - 2 :]
    sep = tokenizer.vocab[SEP]
    first = [tokenizer.vocab[CLS], *ids_a, sep]
    second = [*ids_b, sep] if ids_b else []
    padding = [0] * (max_seq_length - len(first) - len(second)) if pad else []
    return {
        "input_ids": first + second + padding,
        "input_mask": [1] * (len(first) + len(second)) + padding,
        "segment_ids": [0] * len(first) + [1] * len(second) + padding,
    }


def pack_segments(ids, segments, vocab, max_seq_length):
    """Pack pairs of segments of `ids`, int32 (T,), without truncation.

    `segments` (R, 4) has the bounds a_start, a_end, b_start, b_end of each pair; b may be empty.
    Returns a dict of arrays (R, S): `input_ids` int32, `input_mask` and `segment_ids` bool.
    """
    a_start, a_end, b_start, b_end = segments.T[..., None]
    b_length = b_end - b_start
    b_first = a_end - a_start + 2
    length = b_first + b_length + (b_length > 0)
    rows, position = np.arange(len(segments))[:, None], np.arange(max_seq_length)[None]
    is_filled = position < length
    source = position + np.where(position < b_first, a_start - 1, b_start - b_first)
    # Positions outside the segments get arbitrary ids, which the next lines overwrite.
    packed = ids.take(source, mode="clip") * is_filled
    packed[:, 0] = vocab[CLS]
    packed[rows, b_first - 1] = packed[rows, length - 1] = vocab[SEP]
    is_second = is_filled & (position >= b_first)
    return {"input_ids": packed, "input_mask": is_filled, "segment_ids": is_second}


class SlidingWindows:
    """Overlapping windows over a sequence of tokens; `spans` has (first, length) of each.

    A token in several windows has its maximum context in the window with the largest score: its
    distance to the nearer edge, plus 0.01 times the window length (as in the release).
    """

    def __init__(self, num_tokens, window_size, stride):
        """Compute the windows of `num_tokens` tokens; `stride` is the step between their starts."""
        step = min(window_size, stride)
        starts = range(0, max(num_tokens - window_size, 0) + step, step) if num_tokens else ()
        self.spans = [(start, min(num_tokens - start, window_size)) for start in starts]
        self._num_tokens = num_tokens

    def is_max_context(self, window, token):
        """Return whether a token has its maximum context in a window; both are indices."""
        return self._best_windows[token] == window

    @functools.cached_property
    def _best_windows(self):
        best, scores = [-1] * self._num_tokens, [-1.0] * self._num_tokens
        for window, (start, length) in enumerate(self.spans):
            for i in range(length):
                # As in the release, with a slight preference for longer windows.
                score = min(i, length - 1 - i) + 0.01 * length
                if score > scores[start + i]:
                    best[start + i], scores[start + i] = window, score
        return best


class DocumentWindows(NamedTuple):
    """Options for classifying a document in windows, each `[CLS] tokens [SEP]`.

    `stride` is the number of tokens between the starts of two windows. Tokens after `max_windows`
    are ignored. `pooling` is "mean" or "max" over the logits of the windows.
    """

    max_seq_length: int
    stride: int
    max_windows: int
    pooling: str

    @property
    def size(self):
        """Maximum number of document tokens in a window."""
        return self.max_seq_length - 2

    @property
    def max_length(self):
        """Length of the longest document that is not cut off, including [CLS] and [SEP]."""
        return (self.max_windows - 1) * min(self.stride, self.size) + self.max_seq_length

    def spans(self, num_tokens):
        """Return a non-empty list of (first token, number of tokens) of each window."""
        spans = SlidingWindows(num_tokens, self.size, self.stride).spans or [(0, 0)]
        return spans[: self.max_windows]

    def pack(self, ids, tokenizer):
        """Pack each window of a text's ids; return a dict of lists of lists, as in `pack_pair`."""
        rows = [
            pack_pair(ids[first : first + length], [], tokenizer, self.max_seq_length)
            for first, length in self.spans(len(ids))
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}


class LengthCounter:
    """Counts texts, how many exceed a limit, and their maximum length."""

    def __init__(self, limit):
        """Count texts with more than `limit` tokens, including [CLS] and [SEP]."""
        self.limit = limit
        self.counts = {"texts": 0, "truncated": 0, "longest": 0}

    def add(self, length):
        """Add a text of `length` tokens, including [CLS] and [SEP]."""
        self.counts["texts"] += 1
        self.counts["truncated"] += length > self.limit
        self.counts["longest"] = max(self.counts["longest"], length)


def log_truncated(
    where, counts, limit, max_limit=None, advice="", unit="texts", option="max_seq_length"
):
    """Warn if texts were truncated, and suggest what to do.

    `counts` is from a `LengthCounter`. `where` and `unit` (a plural noun) describe the texts,
    `option` sets the limit, `max_limit` is the model's limit or None, and `advice` an option that
    avoids truncation.
    """
    count, total = counts["truncated"], counts["texts"]
    if not count:
        return
    advices = []
    if max_limit is None or max_limit > limit:
        most = f" (at most {max_limit})" if max_limit else ""
        advices.append(f"a larger `{option}`{most} keeps more of them")
    if advice:
        advices.append(f"`{advice}` reads them in windows")
    advices = "; " + ", ".join(advices) if advices else ""
    console.warning(
        f"{where}: {count} of {total} {unit} ({count / total:.1%}) have more than {limit} tokens "
        f"and are truncated, the longest has {counts['longest']}{advices}"
    )
