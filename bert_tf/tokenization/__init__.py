"""Tokenization exactly as in the 2018 release, and vocabularies."""

from bert_tf.tokenization.vocabulary import (
    add_words,
    load_vocab,
    validate_case_matches_checkpoint,
    validate_case_matches_vocabulary,
)
from bert_tf.tokenization.wordpiece import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    convert_by_vocab,
    convert_ids_to_tokens,
    convert_to_unicode,
    convert_tokens_to_ids,
    printable_text,
    whitespace_tokenize,
)

__all__ = [
    "BasicTokenizer",
    "FullTokenizer",
    "WordpieceTokenizer",
    "add_words",
    "convert_by_vocab",
    "convert_ids_to_tokens",
    "convert_to_unicode",
    "convert_tokens_to_ids",
    "load_vocab",
    "printable_text",
    "validate_case_matches_checkpoint",
    "validate_case_matches_vocabulary",
    "whitespace_tokenize",
]
