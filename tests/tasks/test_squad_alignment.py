"""Alignment of answers and tokens, by words as in the release and by characters."""

import pytest

import bert_tf
from bert_tf.tasks.question_answering import alignment
from bert_tf.tasks.question_answering.examples import Answer
from tests.common import WORDS, write_vocab


@pytest.fixture
def tokenizer(tmp_path):
    hangul = ["\u1112", "##\u1161", "##\u11ab"]
    words = [*WORDS, *"([.,:-)]", "##d", "##e", *hangul]
    return bert_tf.FullTokenizer(str(write_vocab(tmp_path, words)))


@pytest.mark.parametrize(
    ("context", "first", "last", "by_words", "by_characters"),
    [
        # Both alignments find the answer within the words.
        ("a (B-C), d", 2, 4, "B-C", "B-C"),
        ("A\u00c9 b", 0, 1, "A\u00c9", "A\u00c9"),  # a composed accented character
        # The release joins words with one space.
        ("a  b\tc", 0, 2, "a b c", "a  b\tc"),
        ("a\u00a0b c", 0, 1, "a\u00a0b", "a\u00a0b"),
        # The tokenizer removes or splits these characters.
        ("(a\u200bb)", 1, 2, "(a\u200bb)", "a\u200bb"),
        ("(\ud55c) a", 1, 3, "(\ud55c)", "\ud55c"),
        ("(e\u0301) a", 1, 1, "(e\u0301)", "e\u0301"),
        # A token outside the vocabulary.
        ("a-x b", 0, 2, "a-x", "a-x"),
        ("(x) b", 1, 1, "(x)", "x"),
        # The first occurrence of the text rather than the token's.
        ("a.da", 3, 3, "a", "a"),
    ],
)
def test_text_of_tokens(tokenizer, context, first, last, by_words, by_characters):
    context = alignment.Context(context, tokenizer)
    assert context.token_text(first, last, by_offsets=False)[0] == by_words
    assert context.token_text(first, last, by_offsets=True) == (by_characters, None)


@pytest.mark.parametrize(
    ("context", "answer", "by_words", "by_characters"),
    [
        ("a (B-C), d", Answer("B-C", 3), (2, 4), (2, 4)),
        ("a ab", Answer("b", 3), (1, 2), (2, 2)),  # "##b" is not the token "b"
        ("a.a", Answer("a", 2), (0, 0), (2, 2)),  # the first equal token
        ("a b", Answer("c", 0), None, None),
        ("a b", Answer("b", 9), None, None),
        ("a b", Answer("b", -1), None, None),
        ("a  b", Answer("a  b", 0), (0, 1), (0, 1)),
        ("a  b", Answer("a b", 0), None, None),
        ("a\u00a0b", Answer("a\u00a0b", 0), None, (0, 1)),
    ],
)
def test_tokens_of_an_answer(tokenizer, context, answer, by_words, by_characters):
    context = alignment.Context(context, tokenizer)
    assert context.find_answer_tokens(answer, by_offsets=False) == by_words
    assert context.find_answer_tokens(answer, by_offsets=True) == by_characters
