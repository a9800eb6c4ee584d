"""The words of a context, and which of them an answer covers."""

import bisect
import functools
import re

# What stands between words for the release: not all that is white space to others.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Words:
    """The words of a text.

    Attributes:
      text: the text.
      texts: list of its words.
      starts: the character that each of them begins at.
    """

    def __init__(self, text):
        """Takes the text apart."""
        self.text, self.texts = text, _WORD.findall(text)

    @functools.cached_property
    def starts(self):
        return [match.start() for match in _WORD.finditer(self.text)]

    def at(self, character):
        """The word at or before a character; -1 before the first."""
        return bisect.bisect_right(self.starts, character) - 1

    def find(self, answer, by_offsets=False):
        """The words that an answer covers.

        Args:
          answer: an `Answer`.
          by_offsets: whether its text must stand there to the character; else it is enough that it
            is found among the words there, with single spaces between words.

        Returns:
          (first word, last word), None if the answer is not there.
        """
        last = answer.start + len(answer.text) - 1
        if answer.start < 0 or last >= len(self.text) or not answer.text.strip():
            return None
        span = self.at(answer.start), self.at(last)
        if by_offsets:
            return span if self.text.startswith(answer.text, answer.start) else None
        # In front of the first word there is nothing, as in the release.
        covered = " ".join(self.texts[span[0] : span[1] + 1]) if span[0] >= 0 else ""
        return span if " ".join(answer.text.split()) in covered else None
