"""Sliding windows over the tokens of a text that does not fit into one sequence.

The windows overlap. A token that is in several windows has its maximum context in the one where its
distance to the nearer edge, plus 0.01 for each token of the window, is largest (as in the release).
"""

import functools


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
