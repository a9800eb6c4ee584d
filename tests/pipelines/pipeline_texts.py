"""Texts for the pipeline tests and their tokens."""

from tests.common import WORDS

LINES = ["a b ||| c", "", "d ||| e ||| f g", "  jab ||| ", "a b c d e f g h i j a b", "zz a"]
# The first 12 tokens of each line; "|" is not in the vocabulary.
TOKENS = [
    "[CLS] a b [SEP] c [SEP]",
    "[CLS] [SEP]",
    "[CLS] d | | | e [SEP] f g [SEP]",
    "[CLS] j ##a ##b | | | [SEP]",
    "[CLS] a b c d e f g h i j [SEP]",
    "[CLS] [UNK] a [SEP]",
]
TOKENS = [text.replace("|", "[UNK]").split() for text in TOKENS]


def encode(tokens):
    """Return the token ids and segment ids of a list of tokens."""
    ids = [WORDS.index(token) for token in tokens]
    first = ids.index(WORDS.index("[SEP]")) + 1
    return ids, [0] * first + [1] * (len(ids) - first)
