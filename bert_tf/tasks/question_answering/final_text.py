"""From the tokens of an answer back to its text, the release's way.

The words of the context that hold the answer are known, but they may hold more: of "Steve Smith's"
the tokens "steve smith" are meant. Tokens are lower-cased and without accents, so they cannot be
looked for in the words themselves. The release tokenizes the words, finds the answer there, and
counts back over what is no space; that fails where the tokenizer makes more or fewer characters of
a text than it has. Then the words are the answer, whole. `WindowConfig.answer_alignment` "offsets"
is the
exact way.
"""


def final_text(answer, words, basic_tokenizer):
    """The part of `words` that is `answer`.

    Args:
      answer: the tokens of the answer as text, pieces of words put together.
      words: the text of the context from the first word of the answer to the last.
      basic_tokenizer: a `BasicTokenizer`.

    Returns:
      (the text, why it is all of `words`, or None if it was found)
    """
    tokenized = " ".join(basic_tokenizer.tokenize(words))
    start = tokenized.find(answer)
    if start < 0:
        return words, f"{answer!r} is not in {tokenized!r}"
    in_words, in_tokenized = _not_spaces(words), _not_spaces(tokenized)
    if len(in_words) != len(in_tokenized):
        return words, f"{tokenized!r} has another number of characters"
    # The place among those that are no spaces is the same in both.
    place_of = {index: place for place, index in enumerate(in_tokenized)}
    ends = [place_of.get(start), place_of.get(start + len(answer) - 1)]
    if None in ends:
        return words, f"{answer!r} is at no place of its own in {tokenized!r}"
    return words[in_words[ends[0]] : in_words[ends[1]] + 1], None


def _not_spaces(text):
    """Where the characters are that are no spaces."""
    return [index for index, char in enumerate(text) if char != " "]
