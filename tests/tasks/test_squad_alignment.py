"""From tokens back to text, by words as in the release and by characters."""

import pytest
from test_scripts import WORDS

import bert_tf
from bert_tf.tasks.question_answering import answers, features
from bert_tf.tasks.question_answering.reading import Answer


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    hangul = ["\u1112", "##\u1161", "##\u11ab"]
    path.write_text("\n".join([*WORDS, *"([.,:-)]", "##d", "##e", *hangul]) + "\n")
    return bert_tf.FullTokenizer(str(path))


def both(tokenizer, context, first, last):
    """The text of some tokens of a context, both ways, and how often the release's failed."""
    context = features.Context(context, tokenizer)
    windows = context.windows(100, 100)
    window = features.Window(context, windows, [], 0, 0, len(context.ids))
    finders = [
        answers.AnswerDecoder(answers.DecodingConfig(), tokenizer, way) for way in (False, True)
    ]
    texts = [finder.text(window, first + 2, last + 2) for finder in finders]
    return *texts, finders[0].unaligned


@pytest.mark.parametrize(
    ("context", "first", "last", "by_words", "by_characters"),
    [
        # Both find a part of the words that hold it.
        ("a (B-C), d", 2, 4, "B-C", "B-C"),
        ("A\u00c9 b", 0, 1, "A\u00c9", "A\u00c9"),  # an accent over one character
        # Spaces of the context, which the release knows as one space each.
        ("a  b\tc", 0, 2, "a b c", "a  b\tc"),
        ("a\u00a0b c", 0, 1, "a\u00a0b", "a\u00a0b"),
        # Characters that the tokenizer drops, or makes several of.
        ("(a\u200bb)", 1, 2, "(a\u200bb)", "a\u200bb"),
        ("(\ud55c) a", 1, 3, "(\ud55c)", "\ud55c"),
        ("(e\u0301) a", 1, 1, "(e\u0301)", "e\u0301"),
        # A token that the vocabulary lacks.
        ("a-x b", 0, 2, "a-x", "a-x"),
        ("(x) b", 1, 1, "(x)", "x"),
        # The first place that fits, not that of the token.
        ("a.da", 3, 3, "a", "a"),
    ],
)
def test_texts(tokenizer, context, first, last, by_words, by_characters):
    assert both(tokenizer, context, first, last)[:2] == (by_words, by_characters)


def test_what_is_not_found_is_counted(tokenizer):
    assert both(tokenizer, "a (B-C), d", 2, 4)[2] == 0
    assert both(tokenizer, "(a\u200bb)", 1, 2)[2] == 1
    assert both(tokenizer, "(x) b", 1, 1)[2] == 1


@pytest.mark.parametrize(
    ("context", "answer", "by_words", "by_characters"),
    [
        ("a (B-C), d", Answer("B-C", 3), (2, 4), (2, 4)),
        ("a ab", Answer("b", 3), (1, 2), (2, 2)),  # "##b" is not the token "b"
        ("a.a", Answer("a", 2), (0, 0), (2, 2)),  # the first that is the same
        ("a b", Answer("c", 0), None, None),
        ("a b", Answer("b", 9), None, None),
        ("a b", Answer("b", -1), None, None),
        ("a  b", Answer("a  b", 0), (0, 1), (0, 1)),
        ("a  b", Answer("a b", 0), None, None),
        ("a\u00a0b", Answer("a\u00a0b", 0), None, (0, 1)),
    ],
)
def test_tokens_of_an_answer(tokenizer, context, answer, by_words, by_characters):
    context = features.Context(context, tokenizer)
    assert context.tokens_of(answer, by_offsets=False) == by_words
    assert context.tokens_of(answer, by_offsets=True) == by_characters
