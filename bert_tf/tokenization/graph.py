"""The tokenizer of string tensors: as TensorFlow ops, for `tf.data` and SavedModels, or in Python.

TF Serving includes the tokenizer's ops of tensorflow-text, `FastBertNormalize` and
`FastWordpieceTokenizeWithOffsets`. `tf.strings.lower` depends on the locale, so it is not used.

Shapes: B texts, W words of all texts, N tokens of all texts, S sequence length.
"""

import re
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tokenization import graph_normalization
from bert_tf.tokenization.graph_normalization import (
    concatenated_bytes,
    contains,
    drop_invalid_utf8,
    map_where,
    row_indices,
    rows_of_values,
)
from bert_tf.tokenization.normalization import ACCENTS, context_characters
from bert_tf.tokenization.packing_graph import Segment, pack, truncate_pair
from bert_tf.tokenization.settings import SHORTEST, UNK, resolve_settings
from bert_tf.tokenization.vocabulary import load_vocab, special_tokens
from bert_tf.tokenization.wordpiece import FullTokenizer, PresetTokenizer

_TEXTS = tf.TensorSpec((None,), tf.string, name="texts")
_SPACE = ord(" ")

_BYTES_PER_CHAR = 4  # in UTF-8, at most
_MAX_BYTES_PER_PIECE = 256  # of FastWordpieceTokenizeWithOffsets


class PackingTokenizer(PresetTokenizer):
    """Base class of tokenizers of string tensors, which define `tokenize`, to ragged ids."""

    tokenize: Any

    def __call__(
        self,
        texts: tf.Tensor,
        pairs: tf.Tensor | None = None,
        max_seq_length: int = 128,
        pad_to_longest: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Convert texts, or pairs of texts, to the inputs of the model.

        Args:
          texts: string (B,), UTF-8; invalid bytes are dropped.
          pairs: string (B,), the second text of each pair, or None. An empty string omits the
            second text.
          max_seq_length: maximum length; longer texts are truncated as in the release.
          pad_to_longest: whether S is the length of the longest example or `max_seq_length`.

        Returns:
          Dict of int32 (B, S): `input_ids`, `input_mask`, `segment_ids`.

        Raises:
          UserError: if `max_seq_length` is too small for two texts.
        """
        ids_a = self.tokenize(tf.convert_to_tensor(texts, tf.string))
        ids_b = None if pairs is None else self.tokenize(tf.convert_to_tensor(pairs, tf.string))
        return self.pack(ids_a, ids_b, max_seq_length, pad_to_longest)

    def pack(
        self,
        ids_a: tf.RaggedTensor,
        ids_b: tf.RaggedTensor | None = None,
        max_seq_length: int = 128,
        pad_to_longest: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Pack ragged ids (B, None), such as the result of `tokenize`, as inputs of the model.

        Rows are `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in the release and padded
        with 0. Other arguments and the result are as in `__call__`.
        """
        if max_seq_length < SHORTEST:
            raise UserError(f"`max_seq_length={max_seq_length}`: expected at least {SHORTEST}")
        ids_b = ids_a[:, :0] if ids_b is None else ids_b
        segments = truncate_pair(Segment.of(ids_a), Segment.of(ids_b), max_seq_length)
        # For an empty batch, `longest` is undefined.
        size = (lambda longest: tf.maximum(longest, 2)) if pad_to_longest else max_seq_length
        return pack(self.vocab, size, *segments)


class GraphTokenizer(PackingTokenizer, tf.Module):
    """Converts strings to ids with TensorFlow ops, the same ids as `FullTokenizer`.

    >>> tokenizer = GraphTokenizer("vocab.txt")
    >>> tokenizer.tokenize(tf.constant(["Hello, world"]))
    <tf.RaggedTensor [[7592, 1010, 2088]]>
    >>> dataset.map(lambda a, b: tokenizer(a, b, max_seq_length=128))

    `tf.saved_model.save(tokenizer, folder)` saves `tokenize` and `tokenize_with_offsets`.

    Args:
      vocab: path of a vocabulary file, or the `vocab` of another tokenizer.
      do_lower_case: as in `FullTokenizer`.
      keep_special_tokens: as in `FullTokenizer`.
      **settings: `strip_accents`, `tokenize_chinese_chars` and `max_input_chars_per_word`, as in
        `FullTokenizer`.

    Attributes:
      vocab: read-only mapping from piece to id.
      do_lower_case: whether text is lower-cased.
      special_tokens: tuple of the tokens that are not split.
      settings: mapping with the settings of the equivalent `FullTokenizer`.
    """

    def __init__(
        self,
        vocab: str | Mapping[str, int],
        do_lower_case: bool | None = None,
        keep_special_tokens: bool = False,
        **settings: Any,
    ):
        """Raise UserError if `vocab` is not a vocabulary, or tensorflow-text is not installed."""
        super().__init__()
        text = tensorflow_text()
        settings = resolve_settings(vocab, do_lower_case=do_lower_case, **settings)
        *rules, self._max_chars = settings.values()
        vocab = vocab if isinstance(vocab, Mapping) else load_vocab(vocab)
        # A read-only view, because tf.Module would track and save each entry of a dict.
        self.vocab = types.MappingProxyType(dict(vocab))
        self.settings = types.MappingProxyType(settings)
        self.do_lower_case, self._strip_accents, _ = rules
        characters = context_characters(self.do_lower_case, self._strip_accents)
        self._context_class = f"[{characters}]" if characters else None
        if self._strip_accents:
            characters += ACCENTS
        self._span_class = f"[{characters}]" if characters else None
        self.special_tokens = special_tokens(self.vocab) if keep_special_tokens else ()
        self._first_special_id = max(self.vocab.values()) + 1
        self._special_ids = [self.vocab[token] for token in self.special_tokens]
        self._escapes, special_words = _escapes(self.vocab, self.special_tokens)
        normalizer_model = tf.constant(graph_normalization.normalizer_model(*rules))
        self._normalizer = text.FastBertNormalizer(model_buffer=normalizer_model)
        self._wordpiece = text.FastWordpieceTokenizer(
            _pieces_by_id(self.vocab, self._max_chars) + special_words,
            max_bytes_per_word=_BYTES_PER_CHAR * self._max_chars,
            token_out_type=tf.int32,
            unknown_token=UNK,
            no_pretokenization=True,
        )

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(self, texts):
        """Convert strings (B,), UTF-8, to ids, ragged int32 (B, None)."""
        texts = self._escape_special(drop_invalid_utf8(texts))
        if self._context_class:
            needs_context = contains(texts, self._context_class)
            # The line break becomes a space, which has no effect.
            texts = map_where(
                needs_context, lambda x: self._resolve_context(tf.strings.join(["\n", x]))[0], texts
            )
        words = tf.strings.split(self._normalizer.normalize(texts))
        ids, _, _ = self._split_words(words.values)
        splits = tf.gather(ids.row_splits, words.row_splits)
        ids, _ = self._unescape_special(ids.values)
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Convert strings (B,), UTF-8, to ids and their spans in the text.

        Offsets count characters (code points) after invalid bytes are dropped, as in
        `FullTokenizer.encode_with_offsets`.

        Returns:
          A triple (ids, starts, ends), each ragged int32 (B, None). The end is exclusive.
        """
        # A line break separates each text from the previous one when all are concatenated.
        texts = tf.strings.join(["\n", self._escape_special(drop_invalid_utf8(texts))])
        text_starts = tf.cumsum(tf.strings.length(texts, unit="UTF8_CHAR"), exclusive=True)
        # Few texts have such characters. In all others, only the ends of tokens are looked up.
        in_context = tf.constant(False)
        if self._span_class:
            in_context = tf.reduce_any(contains(texts, self._span_class))
        no_characters = tf.zeros((0,), tf.int32)
        texts, char_sources, char_ends = tf.cond(
            in_context,
            lambda: self._resolve_spans(texts),
            lambda: (texts, no_characters, no_characters),
        )
        normalized, byte_offsets = self._normalizer.normalize_with_offsets(texts)
        words = tf.strings.split(normalized)
        ids, piece_starts, piece_ends = self._split_words(words.values)
        text_of_word, word_of_token = rows_of_values(words), rows_of_values(ids)
        text_of_token = tf.gather(text_of_word, word_of_token)

        # All texts start with a space, so every word follows a space.
        is_space = concatenated_bytes(normalized) == _SPACE
        before_word = tf.where(is_space[:-1] & ~is_space[1:])[:, 0]
        # Each text has one offset more than bytes, for its end.
        word_start = tf.cast(before_word, tf.int32) + 1 + text_of_word
        token_word = tf.gather(word_start, word_of_token)
        token_start, token_end = piece_starts + token_word, piece_ends + token_word
        byte_of_text = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), text_of_token)
        char_of_byte = tf.cumsum(tf.cast(concatenated_bytes(texts) & 0xC0 != 0x80, tf.int32))

        def characters(normalized_bytes, byte_of_text):
            """Map bytes of the normalized texts to characters of the original texts."""
            in_text = tf.cast(tf.gather(byte_offsets.values, normalized_bytes), tf.int32)
            return tf.gather(char_of_byte, in_text + byte_of_text) - 1

        def spans():
            starts = characters(token_start, byte_of_text)
            return starts, characters(token_end - 1, byte_of_text) + 1

        def spans_in_context():
            sizes = token_end - token_start
            token = row_indices(sizes)
            first = token_start - tf.cumsum(sizes, exclusive=True)
            indices = tf.range(tf.size(token)) + tf.gather(first, token)
            source = tf.gather(char_sources, characters(indices, tf.gather(byte_of_text, token)))
            ends = tf.gather(char_ends, tf.math.segment_max(source, token))
            return tf.math.segment_min(source, token), ends

        starts, ends = tf.cond(in_context, spans_in_context, spans)

        splits = tf.gather(ids.row_splits, words.row_splits)
        ids, is_special = self._unescape_special(ids.values)
        rows = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        # Count from the start of each text, after its line break. The spaces around an escaped
        # special token belong to its span.
        text_start = tf.gather(text_starts, text_of_token) + 1
        margin = tf.cast(is_special, tf.int32)
        starts, ends = starts - text_start - margin, ends - text_start + margin
        return rows, rows.with_values(starts), rows.with_values(ends)

    def _resolve_spans(self, texts):
        codes = tf.strings.unicode_decode(texts, "UTF-8").values
        ends = graph_normalization.span_ends(codes, self._strip_accents)
        if self._context_class:
            return *self._resolve_context(texts), ends
        return texts, tf.range(tf.size(codes)), ends

    def _split_words(self, words):
        """Split words (W,); return ragged ids (W, None), and starts and ends in bytes (N,)."""
        # The op's limit counts bytes. A word with too many characters is replaced by a space for
        # each of its bytes, which become [UNK].
        limit = self._max_chars

        def replace_long(words):
            is_long = tf.strings.length(words, unit="UTF8_CHAR") > limit
            return tf.where(is_long, tf.strings.regex_replace(words, r"\C", " "), words)

        words = map_where(tf.strings.length(words) > limit, replace_long, words)
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(words)
        return ids, tf.cast(starts.values, tf.int32), tf.cast(ends.values, tf.int32)

    def _resolve_context(self, texts):
        return graph_normalization.resolve_context(texts, self.do_lower_case, self._strip_accents)

    def _escape_special(self, texts):
        """Replace special tokens by words of the same length in private-use characters."""
        for pattern, replacement in self._escapes:
            texts = tf.strings.regex_replace(texts, pattern, replacement)
        return texts

    def _unescape_special(self, ids):
        """Restore the ids of special tokens; return (ids (N,), whether they are special (N,))."""
        is_special = ids >= self._first_special_id
        if not self.special_tokens:
            return ids, is_special
        special = tf.gather(self._special_ids, tf.maximum(ids - self._first_special_id, 0))
        return tf.where(is_special, special, ids), is_special


class HostTokenizer(PackingTokenizer):
    """A `FullTokenizer` with the methods of `GraphTokenizer`, for functions that are not saved.

    The tables and operations of a `GraphTokenizer` would take half of the time of a first answer.
    """

    def __init__(self, *args: Any, **options: Any):
        """Take the arguments of `GraphTokenizer`."""
        self._tokenizer = FullTokenizer(*args, **options)
        self.vocab, self.settings = self._tokenizer.vocab, self._tokenizer.settings

    def tokenize(self, texts):
        """Convert strings (B,) to ids, as `GraphTokenizer.tokenize`."""
        return self._map(texts, lambda text: [self._tokenizer.encode(text)], 1)[0]

    def tokenize_with_offsets(self, texts):
        """Convert strings (B,) to ids and spans, as `GraphTokenizer.tokenize_with_offsets`."""
        return self._map(texts, self._tokenizer.encode_with_offsets, 3)

    def _map(self, texts, encode, num_columns):
        """Return the lists of ints that `encode` returns for each text, ragged int32 (B, None)."""

        def run(texts):
            rows = [encode(text) for text in texts]
            splits = np.cumsum([0, *(len(row[0]) for row in rows)])
            columns = ([x for row in rows for x in row[i]] for i in range(num_columns))
            return splits, *(np.array(column, np.int32) for column in columns)

        outputs = tf.numpy_function(run, [texts], [tf.int64, *[tf.int32] * num_columns])
        # TensorFlow's own optimization does not know the rank from `set_shape`.
        splits, *columns = (tf.ensure_shape(x, (None,)) for x in outputs)
        ragged = tf.RaggedTensor.from_row_splits
        return [ragged(column, splits, validate=False) for column in columns]


def tensorflow_text():
    """Import tensorflow-text; raise UserError if it is not installed."""
    # Imported on first use, because training on records works without it, as on Windows.
    try:
        import tensorflow_text
    except ImportError as error:
        minor = ".".join(tf.__version__.split(".")[:2])
        raise UserError(
            f"tokenizing in the graph requires tensorflow-text {minor}, the same version as "
            f"TensorFlow ({error})"
        ) from None
    return tensorflow_text


def _pieces_by_id(vocab, max_chars):
    """Return the pieces by id for FastWordpieceTokenizeWithOffsets; unusable ids get a filler."""
    pieces = [f" {index}" for index in range(max(vocab.values()) + 1)]
    for piece, index in vocab.items():
        if piece in ("", "##") or {"\0", " "} & {*piece} or len(piece) > max_chars + len("##"):
            continue
        if len(piece.removeprefix("##").encode()) > _MAX_BYTES_PER_PIECE:
            raise UserError(
                f"the piece {piece[:20]!r}... of the vocabulary is too long for the tokenizer in "
                f"the graph, expected at most {_MAX_BYTES_PER_PIECE} bytes"
            )
        pieces[index] = piece
    return pieces


def _escapes(vocab, special):
    """Choose words that replace the special tokens during normalization.

    A special token becomes " SSSS " with the same number of characters, where S is a private-use
    character that is not in the vocabulary. An S in the text is first replaced by another
    private-use character. Returns (pattern, replacement) pairs, and the word of each token.
    """
    if not special:
        return [], []
    alphabet = set().union(*vocab)
    private = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in alphabet)
    other, *chars = [next(private) for _ in range(len(special) + 1)]
    words = [char * (len(token) - 2) for char, token in zip(chars, special, strict=True)]
    escapes = [(f"[{''.join(chars)}]", other)]
    escapes += [(re.escape(token), f" {word} ") for token, word in zip(special, words, strict=True)]
    return escapes, words
