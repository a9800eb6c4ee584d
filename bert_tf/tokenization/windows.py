"""Sliding windows over the tokens of a text that does not fit into one sequence.

The windows overlap. A token that is in several windows has its maximum context in the one where its
distance to the nearer edge, plus 0.01 for each token of the window, is largest (as in the release).
"""

import functools
from typing import NamedTuple


class DocumentWindows(NamedTuple):
    """How a classifier reads the windows of a document, each `[CLS] tokens [SEP]`.

    Attributes:
      max_seq_length: length of a window in tokens, including [CLS] and [SEP].
      stride: number of tokens from the start of one window to the start of the next.
      max_windows: the tokens after that many windows are left out.
      pooling: "mean" or "max" of the logits of the windows.
    """

    max_seq_length: int
    stride: int
    max_windows: int
    pooling: str

    @property
    def size(self):
        """The largest number of tokens of the document in a window."""
        return self.max_seq_length - 2

    @property
    def max_length(self):
        """The longest document that is read completely, including [CLS] and [SEP]."""
        return (self.max_windows - 1) * min(self.stride, self.size) + self.max_seq_length

    def spans(self, num_tokens):
        """Return the windows of a document: (first token, number of tokens); at least one."""
        spans = SlidingWindows(num_tokens, self.size, self.stride).spans or [(0, 0)]
        return spans[: self.max_windows]


class SlidingWindows:
    """Overlapping windows over a sequence of tokens.

    Attributes:
      spans: List of (first token, number of tokens) of each window.
    """

    def __init__(self, num_tokens, window_size, stride):
        """Place the windows.

        Args:
          num_tokens: Number of tokens; there are no windows if it is 0.
          window_size: The largest number of tokens in a window.
          stride: Number of tokens from the start of one window to the start of the next.
        """
        self.spans, start = [], 0
        while start < num_tokens:
            length = min(num_tokens - start, window_size)
            self.spans.append((start, length))
            if start + length == num_tokens:
                break
            start += min(length, stride)
        self._num_tokens = num_tokens

    def is_max_context(self, window, token):
        """Return whether a token has its maximum context in the window with this index."""
        return self._best_windows[token] == window

    @functools.cached_property
    def _best_windows(self):
        best, scores = [-1] * self._num_tokens, [-1.0] * self._num_tokens
        for window, (start, length) in enumerate(self.spans):
            for i in range(length):
                # As in the release, which favours longer windows a little.
                score = min(i, length - 1 - i) + 0.01 * length
                if score > scores[start + i]:
                    best[start + i], scores[start + i] = window, score
        return best
