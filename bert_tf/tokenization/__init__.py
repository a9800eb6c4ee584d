"""Tokenization exactly as in the 2018 release, and vocabularies."""

from bert_tf.tokenization.vocabulary import add_words as add_words
from bert_tf.tokenization.vocabulary import load_vocab as load_vocab
from bert_tf.tokenization.vocabulary import (
    validate_case_matches_checkpoint as validate_case_matches_checkpoint,
)
from bert_tf.tokenization.wordpiece import BasicTokenizer as BasicTokenizer
from bert_tf.tokenization.wordpiece import FullTokenizer as FullTokenizer
from bert_tf.tokenization.wordpiece import WordpieceTokenizer as WordpieceTokenizer
from bert_tf.tokenization.wordpiece import _is_control as _is_control
from bert_tf.tokenization.wordpiece import _is_punctuation as _is_punctuation
from bert_tf.tokenization.wordpiece import _is_whitespace as _is_whitespace
from bert_tf.tokenization.wordpiece import convert_by_vocab as convert_by_vocab
from bert_tf.tokenization.wordpiece import convert_ids_to_tokens as convert_ids_to_tokens
from bert_tf.tokenization.wordpiece import convert_to_unicode as convert_to_unicode
from bert_tf.tokenization.wordpiece import convert_tokens_to_ids as convert_tokens_to_ids
from bert_tf.tokenization.wordpiece import printable_text as printable_text
from bert_tf.tokenization.wordpiece import whitespace_tokenize as whitespace_tokenize
