"""Text to words to pieces to ids: the tokenizers of the release, by their old names."""

from bert_tf.errors import UserError
from bert_tf.tokenization.characters import normalize
from bert_tf.tokenization.vocabulary import load_vocab

# Text holds few different words, but a vast one holds names and numbers without end.
_CACHED_WORDS = 1_000_000


def convert_to_unicode(text):
    """Returns `text` as str; bytes are read as UTF-8 and what is not UTF-8 in them is left out."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise UserError(f"text to tokenize must be str or bytes, not {type(text).__name__}")


def whitespace_tokenize(text):
    """Returns the parts of `text` between white space, as a list."""
    return text.split()


class BasicTokenizer:
    """Text to words: cleaning, casing, accents, punctuation, ideographs."""

    def __init__(self, do_lower_case=True):
        """Takes whether to lower the case and strip accents."""
        self.do_lower_case = do_lower_case

    def tokenize(self, text):
        """Returns the list of words of `text`, a str or bytes."""
        return normalize(convert_to_unicode(text), self.do_lower_case).split()


class WordpieceTokenizer:
    """Words to pieces: always the longest piece that the vocabulary has.

    >>> WordpieceTokenizer({"un": 0, "##aff": 1, "##able": 2}).tokenize("unaffable")
    ['un', '##aff', '##able']
    """

    def __init__(self, vocab, unk_token="[UNK]", max_input_chars_per_word=200):
        """Takes what can be said of a word.

        Args:
          vocab: the pieces, a dict or set; one that goes on within a word starts with "##".
          unk_token: what stands for a word that cannot be made of pieces.
          max_input_chars_per_word: longer words are unknown.
        """
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._longest = max(map(len, vocab), default=0)
        self._alphabet = frozenset().union(*vocab)

    def tokenize(self, text):
        """Returns the list of pieces of `text`, words between white space."""
        pieces = []
        for word in whitespace_tokenize(convert_to_unicode(text)):
            pieces += self._split(word)
        return pieces

    def _split(self, word):
        # A character that no piece has settles it without a search.
        if len(word) > self.max_input_chars_per_word or not self._alphabet.issuperset(word):
            return [self.unk_token]
        pieces = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return [self.unk_token]
            pieces.append(piece)
            start, prefix = end, "##"
        return pieces


class FullTokenizer:
    """Text to pieces and ids.

    Attributes:
      vocab: dict from piece to id.
      inv_vocab: dict from id to piece.
      basic_tokenizer: a `BasicTokenizer`.
      wordpiece_tokenizer: a `WordpieceTokenizer`.
    """

    def __init__(self, vocab_file, do_lower_case=True):
        """Reads `vocab_file` (UserError if it is none); `do_lower_case` as in BasicTokenizer."""
        self.vocab = load_vocab(vocab_file)
        self.inv_vocab = {index: piece for piece, index in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(do_lower_case)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
        self._cache = {}

    def tokenize(self, text):
        """Returns the list of pieces of `text`, a str or bytes."""
        pieces = self.inv_vocab
        return [pieces[index] for index in self.encode(text)]

    def encode(self, text):
        """Returns the list of ids of the pieces of `text`, a str or bytes."""
        cache = self._cache
        ids = []
        for word in self.basic_tokenizer.tokenize(text):
            found = cache.get(word)
            ids += self._learn(word) if found is None else found
        return ids

    def _learn(self, word):
        if len(self._cache) >= _CACHED_WORDS:
            self._cache.clear()
        ids = self._cache[word] = self.convert_tokens_to_ids(
            self.wordpiece_tokenizer.tokenize(word)
        )
        return ids

    def convert_tokens_to_ids(self, tokens):
        """Returns the ids of `tokens`; UserError names the first that is not in the vocabulary."""
        try:
            return [self.vocab[token] for token in tokens]
        except KeyError as error:
            raise UserError(f"the token {error} is not in the vocabulary") from None

    def convert_ids_to_tokens(self, ids):
        """Returns the pieces of `ids`; UserError names the first that the vocabulary lacks."""
        try:
            return [self.inv_vocab[index] for index in ids]
        except KeyError as error:
            raise UserError(
                f"the id {error} is not in the vocabulary of {len(self.vocab)} pieces"
            ) from None
