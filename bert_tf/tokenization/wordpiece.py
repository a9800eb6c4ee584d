"""The release's tokenizers, under their original names."""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from bert_tf.errors import UserError
from bert_tf.tokenization.normalization import normalize, normalize_with_offsets, span_ends
from bert_tf.tokenization.settings import (
    MAX_CHARS_PER_WORD,
    RELEASE_SETTINGS,
    UNK,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import load_vocab, special_tokens

# Limits the memory for large corpora, which have ever more names and numbers.
MAX_CACHED_WORDS = 500_000
# Longer words and chunks, as in scripts without spaces, rarely recur.
MAX_CACHED_CHARS = 40


def convert_to_unicode(text: str | bytes) -> str:
    """Return `text` as a str; decode bytes as UTF-8 and drop invalid ones."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise UserError(f"found a text of type {type(text).__name__}, expected str or bytes")


# They differed in Python 2.
printable_text = convert_to_unicode


def convert_by_vocab(vocab: Mapping, items: Iterable) -> list:
    """Look up `items` in a dict; raise UserError if one is missing."""
    try:
        return [vocab[item] for item in items]
    except KeyError as error:
        kind = "token" if isinstance(error.args[0], str) else "id"
        raise UserError(f"no {kind} {error} in the vocabulary of {len(vocab)} pieces") from None


convert_tokens_to_ids = convert_ids_to_tokens = convert_by_vocab


def whitespace_tokenize(text: str) -> list[str]:
    """Split `text` at whitespace."""
    return text.split()


# The release's tests and some forks use these functions. They follow `BasicTokenizer`, so they
# differ from the release's for U+2028 and U+2029 (whitespace here) and U+FFFD (dropped).
def _is_whitespace(char):
    return normalize(char, False, False, False) == " "


def _is_control(char):
    return normalize(char, False, False, False) == ""


def _is_punctuation(char):
    return normalize(char, False, False, False) == f" {char} "


class BasicTokenizer:
    """Cleans text and splits it into words at whitespace, punctuation and ideographs.

    The arguments are as in `FullTokenizer`. `strip_accents=None` means `do_lower_case`.
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
    ):
        self.do_lower_case = do_lower_case
        self.strip_accents = do_lower_case if strip_accents is None else strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.rules = (do_lower_case, self.strip_accents, tokenize_chinese_chars)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Split `text` into a list of words."""
        return normalize(convert_to_unicode(text), *self.rules).split()


class WordpieceTokenizer:
    """Splits words into pieces by greedy longest-match-first search in the vocabulary.

    >>> WordpieceTokenizer({"un": 0, "##aff": 1, "##able": 2}).tokenize("unaffable")
    ['un', '##aff', '##able']

    Args:
      vocab: collection of pieces. A piece that continues a word starts with "##".
      unk_token: replaces words that cannot be split into pieces.
      max_input_chars_per_word: longer words are replaced by `unk_token`.
    """

    def __init__(
        self,
        vocab: Collection[str],
        unk_token: str = UNK,
        max_input_chars_per_word: int = MAX_CHARS_PER_WORD,
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._max_piece_chars = max(map(len, vocab), default=0)
        self._alphabet = frozenset().union(*vocab)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Split `text`, whose words are separated by whitespace, into a list of pieces."""
        pieces = []
        for word in whitespace_tokenize(convert_to_unicode(text)):
            pieces += self._split(word)
        return pieces

    def _split(self, word):
        # No search is needed if a character is in no piece.
        if len(word) > self.max_input_chars_per_word or not self._alphabet.issuperset(word):
            return [self.unk_token]
        pieces = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._max_piece_chars), start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return [self.unk_token]
            pieces.append(piece)
            start, prefix = end, "##"
        return pieces


def _remember(cache, text, ids):
    if len(text) <= MAX_CACHED_CHARS:
        if len(cache) >= MAX_CACHED_WORDS:
            cache.clear()
        cache[text] = ids
    return ids


_Tokenizer = TypeVar("_Tokenizer", bound="PresetTokenizer")


class PresetTokenizer:
    """Base class of tokenizers: presets, and look-ups with the names of the release and keras-hub.

    The arguments of the constructor are a vocabulary, the settings, and options.
    """

    vocab: Mapping[str, int]
    # The options that the metadata of a model may have.
    saved_options: tuple[str, ...] = ()

    @classmethod
    def from_preset(cls: type[_Tokenizer], preset: Any, **options: Any) -> _Tokenizer:
        """Return the tokenizer of a model, with its casing and other settings.

        >>> tokenizer = FullTokenizer.from_preset("uncased_L-12_H-768_A-12")

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "OWNER/NAME", a
            folder or a checkpoint, as str or path; or the result of `checkpoints.resolve`.
          **options: arguments of the constructor, which override the settings of the model.

        Raises:
          UserError: if the vocabulary is missing, or the tokenizer is not BERT's.
        """
        # Imported on use, because `checkpoints` imports this package.
        from bert_tf import checkpoints

        overrides = {name: options.pop(name, None) for name in RELEASE_SETTINGS}
        model_files = checkpoints.resolve(preset, needs=["vocab_file"], **overrides)
        for name in cls.saved_options:
            if value := checkpoints.read_metadata(model_files.checkpoint).get(name):
                options.setdefault(name, value)
        options |= model_files.tokenizer_settings
        return cls(model_files.vocab_file, **options)  # type: ignore[call-arg]

    @functools.cached_property
    def inv_vocab(self) -> dict[int, str]:
        """The mapping from id to piece."""
        return {index: piece for piece, index in self.vocab.items()}

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of `tokens`; raise UserError if one is not in the vocabulary."""
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of `ids`; raise UserError if one is not in the vocabulary."""
        return convert_by_vocab(self.inv_vocab, ids)

    def token_to_id(self, token: str) -> int:
        """Return the id of a piece; raise UserError if it is not in the vocabulary."""
        return self.convert_tokens_to_ids([token])[0]

    def id_to_token(self, index: int) -> str:
        """Return the piece of an id; raise UserError if it is not in the vocabulary."""
        return self.convert_ids_to_tokens([index])[0]

    def get_vocabulary(self) -> list[str | None]:
        """Return the pieces in the order of their ids, with None for unused ids."""
        return [self.inv_vocab.get(index) for index in range(max(self.inv_vocab) + 1)]

    def vocabulary_size(self) -> int:
        """Return the number of ids, the least `vocab_size` of a model."""
        return max(self.inv_vocab) + 1

    def detokenize(self, ids: Any) -> Any:
        """Return the words of ids (S,) as a str, separated by spaces; for ids (B, S), a list.

        Special tokens and padding are kept. Casing, accents and spacing are as in the pieces.
        """
        rows = list(ids)
        if rows and getattr(rows[0], "ndim", isinstance(rows[0], (list, tuple))):
            return [self.detokenize(row) for row in rows]
        return " ".join(self.convert_ids_to_tokens(map(int, rows))).replace(" ##", "")


class FullTokenizer(PresetTokenizer):
    """Converts text to pieces and ids in Python.

    >>> tokenizer = FullTokenizer("vocab.txt", do_lower_case=True)
    >>> tokenizer.tokenize("Hello, world")
    ['hello', ',', 'world']
    >>> tokenizer.encode("Hello, world")
    [7592, 1010, 2088]

    By default, arguments have the release's values or, with a `tokenizer.json` of Hugging Face, the
    values in this file and in the `tokenizer_config.json` next to it.

    Args:
      vocab_file: path of the vocabulary file or of a `tokenizer.json`; or the `vocab` of another
        tokenizer.
      do_lower_case: whether to lower-case the text; True in the release.
      keep_special_tokens: whether special tokens such as "[MASK]" in a text are kept. By default
        they are split like any text, as in the release, so that the author of a text cannot insert
        separators.
      strip_accents: whether to strip accents; the same as `do_lower_case` in the release.
      tokenize_chinese_chars: whether each ideograph is a word; True in the release.
      max_input_chars_per_word: longer words become [UNK]; 200 in the release.

    Attributes:
      vocab: dict from piece to id.
      inv_vocab: dict from id to piece.
      basic_tokenizer: the `BasicTokenizer`.
      wordpiece_tokenizer: the `WordpieceTokenizer`.
      special_tokens: tuple of the tokens that are not split.
      settings: dict of the arguments other than `vocab_file` and `keep_special_tokens`.
    """

    def __init__(
        self,
        vocab_file: str | Mapping[str, int],
        do_lower_case: bool | None = None,
        keep_special_tokens: bool = False,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool | None = None,
        max_input_chars_per_word: int | None = None,
    ):
        """Read the vocabulary; raise UserError if it is invalid."""
        self.vocab = dict(vocab_file if isinstance(vocab_file, Mapping) else load_vocab(vocab_file))
        values = (do_lower_case, strip_accents, tokenize_chinese_chars, max_input_chars_per_word)
        options = dict(zip(RELEASE_SETTINGS, values, strict=True))
        self.settings = resolve_settings(vocab_file, **options)
        *rules, max_chars = self.settings.values()
        self.basic_tokenizer = BasicTokenizer(*rules)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab, UNK, max_chars)
        self.special_tokens = special_tokens(self.vocab) if keep_special_tokens else ()
        alternatives = "|".join(map(re.escape, self.special_tokens))
        self._special_pattern = re.compile(f"({alternatives})") if alternatives else None
        self._word_cache: dict[str, list[int]] = {}
        self._chunk_cache: dict[str, list[int]] = {}
        self._span_cache: dict[str, tuple[list[int], list[int], list[int]]] = {}

    def tokenize(self, text: str | bytes) -> list[str]:
        """Convert `text` to a list of pieces."""
        return self.convert_ids_to_tokens(self.encode(text))

    def encode(self, text: str | bytes) -> list[int]:
        """Convert `text` to a list of ids."""
        return self.encode_batch((text,))[0]

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """Convert each text to a list of ids."""
        # No rule applies across a space, so the chunks between spaces can be cached.
        cache, encode_chunk = self._chunk_cache, self._encode_chunk
        batch = []
        for text in texts:
            if not isinstance(text, str):
                text = convert_to_unicode(text)
            ids: list[int] = []
            for part, special in self._split_special(text):
                for chunk in part.split(" "):
                    cached = cache.get(chunk)
                    ids += encode_chunk(chunk) if cached is None else cached
                if special:
                    ids.append(self.vocab[special])
            batch.append(ids)
        return batch

    def encode_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Convert `text` to ids, each with the span `text[start:end]` that it comes from.

        Offsets count characters (code points) of `convert_to_unicode(text)`. A stripped accent
        belongs to the span of the character before it. If a character has several tokens, such as
        the sounds of a Hangul syllable, they all have its span. [UNK] has the span of its word.

        Returns:
          A triple of lists of the same length: ids (the same as `encode`), starts, ends.
        """
        columns: tuple[list[int], list[int], list[int]] = [], [], []
        ids, starts, ends = columns
        base = 0
        for part, special in self._split_special(convert_to_unicode(text)):
            for chunk in part.split(" "):
                spans = self._span_cache.get(chunk) or self._find_spans(chunk)
                ids += spans[0]
                starts += [base + x for x in spans[1]]
                ends += [base + x for x in spans[2]]
                base += len(chunk) + 1
            base -= 1  # no space after the last chunk
            if special:
                ids.append(self.vocab[special])
                starts.append(base)
                base += len(special)
                ends.append(base)
        return ids, starts, ends

    def _find_spans(self, chunk):
        normalized, sources = normalize_with_offsets(chunk, *self.basic_tokenizer.rules)
        chunk_ends = span_ends(chunk, self.basic_tokenizer.strip_accents)
        ids, starts, ends, first = [], [], [], 0
        for word in normalized.split(" "):
            word_ids = self._encode_word(word)
            lengths = [len(self.inv_vocab[index]) for index in word_ids]
            lengths[1:] = [length - len("##") for length in lengths[1:]]
            if sum(lengths) != len(word):
                lengths = [len(word)]  # [UNK]
            for length in lengths:
                span = sources[first : first + length]
                starts.append(min(span))
                ends.append(chunk_ends[max(span)])
                first += length
            ids += word_ids
            first += 1
        return _remember(self._span_cache, chunk, (ids, starts, ends))

    def _split_special(self, text):
        """Split at special tokens; return pairs (text, special token after it or None)."""
        if self._special_pattern is None or "[" not in text:
            return ((text, None),)
        parts = self._special_pattern.split(text)
        return zip(parts[::2], [*parts[1::2], None], strict=True)

    def _encode_chunk(self, chunk):
        ids = []
        for word in self.basic_tokenizer.tokenize(chunk):
            ids += self._encode_word(word)
        return _remember(self._chunk_cache, chunk, ids)

    def _encode_word(self, word):
        ids = self._word_cache.get(word)
        if ids is None:
            ids = self.convert_tokens_to_ids(self.wordpiece_tokenizer.tokenize(word))
            _remember(self._word_cache, word, ids)
        return ids
