"""Where the windows lie that a long text is read in.

They overlap, and a token that lies in several of them has its "maximum context" in one: that where
it is farthest from both edges.
"""


class Windows:
    """Where the windows of a context lie: `spans`, a list of (first token, number of tokens)."""

    def __init__(self, num_tokens, room, stride):
        """Lays them; a text without tokens has none."""
        self.spans, start = [], 0
        while start < num_tokens:
            length = min(num_tokens - start, room)
            self.spans.append((start, length))
            if start + length == num_tokens:
                break
            start += min(length, stride)
        self._num_tokens, self._best = num_tokens, None

    def is_max_context(self, window, token):
        """Whether a token of the text has its maximum context in that window."""
        if self._best is None:
            self._best = self._find_best()
        return self._best[token] == window

    def _find_best(self):
        best, scores = [-1] * self._num_tokens, [-1.0] * self._num_tokens
        for window, (start, length) in enumerate(self.spans):
            for i in range(length):
                # The release adds the length so that of two equals the longer window wins.
                score = min(i, length - 1 - i) + 0.01 * length
                if score > scores[start + i]:
                    best[start + i], scores[start + i] = window, score
        return best
