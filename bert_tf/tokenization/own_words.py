"""Words of one's own, in the slots that published vocabularies keep free for them."""

import re

from bert_tf.errors import UserError
from bert_tf.tokenization.vocabulary import SPECIAL
from bert_tf.tokenization.wordpiece import BasicTokenizer

_UNUSED = re.compile(r"\[unused\d+\]")


def put_words(pieces, words, do_lower_case=True):
    """Puts words into the `[unusedN]` slots of a vocabulary, the first word into the first slot.

    All ids stay as they are, so checkpoints of the vocabulary still fit. The embeddings of the
    slots are those that training left unused: the words mean nothing until the model is trained
    on text that has them.

    Args:
      pieces: list of the vocabulary's pieces in the order of their ids.
      words: the words; one that starts with "##" goes on within a word. Those that the vocabulary
        has already are left out.
      do_lower_case: whether the model's text is lower-cased.

    Returns:
      (the new list of pieces, the words that were put in)

    Raises:
      UserError: if there are not enough slots, or the tokenizer would never look a word up, as it
        cuts that word or writes it in another way.
    """
    tokenizer = BasicTokenizer(do_lower_case)
    new = []
    known = set(pieces)
    for word in words:
        if word in known:
            continue
        plain = word.removeprefix("##")
        found = tokenizer.tokenize(plain)
        if word in SPECIAL or found != [plain]:
            raise UserError(
                f"the word {word!r} would never be found, text with it is read as "
                f"{' '.join(found) or 'nothing'}"
            )
        known.add(word)
        new.append(word)
    slots = [index for index, piece in enumerate(pieces) if _UNUSED.fullmatch(piece)]
    if len(new) > len(slots):
        raise UserError(
            f"{len(new)} words are new to the vocabulary, but it has only {len(slots)} "
            "[unusedN] slots"
        )
    changed = list(pieces)
    for slot, word in zip(slots, new, strict=False):
        changed[slot] = word
    return changed, new
