"""Text to ids, exactly as the release did it, and vocabularies."""

from bert_tf.tokenization import learning
from bert_tf.tokenization.vocabulary import load_vocab, validate_case_matches_checkpoint
from bert_tf.tokenization.wordpiece import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    convert_to_unicode,
    whitespace_tokenize,
)

__all__ = [
    "BasicTokenizer",
    "FullTokenizer",
    "WordpieceTokenizer",
    "convert_to_unicode",
    "learning",
    "load_vocab",
    "validate_case_matches_checkpoint",
    "whitespace_tokenize",
]
