"""Tokenization exactly as in the 2018 release, and vocabularies."""

from bert_tf.tokenization.vocabulary import add_words, load_vocab, validate_case_matches_checkpoint
from bert_tf.tokenization.wordpiece import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    _is_control,
    _is_punctuation,
    _is_whitespace,
    convert_by_vocab,
    convert_ids_to_tokens,
    convert_to_unicode,
    convert_tokens_to_ids,
    printable_text,
    whitespace_tokenize,
)
