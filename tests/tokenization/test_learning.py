"""Vocabularies: laid out as the published ones, the same for the same text, and of use."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from bert_tf import tokenization
from bert_tf.errors import UserError
from bert_tf.tokenization import learning

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, ".": 9}


def _naive(words, min_count):
    """All joins in order, every count taken anew: slow, and plainly what was meant."""
    spelled = {word: [word[0], *("##" + char for char in word[1:])] for word in words}
    while True:
        pairs = Counter()
        for word, symbols in spelled.items():
            for pair in pairwise(symbols):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < min_count:
            return
        piece = best[0] + best[1].removeprefix("##")
        yield piece
        for word, symbols in spelled.items():
            spelled[word] = learning._join(symbols, best, piece)


def test_layout_and_joins():
    pieces = learning.learn(WORDS, vocab_size=100, num_unused=1)
    assert pieces[:6] == SPECIAL
    plain = sorted(set("".join(WORDS)))
    assert pieces[6 : 6 + len(plain)] == plain
    inside = sorted("##" + char for char in set("".join(WORDS)) - {"."})
    start = 6 + len(plain) + len(inside)
    assert pieces[6 + len(plain) : start] == inside
    assert pieces[start : start + 5] == ["##es", "##est", "##ow", "low", "##ew"]
    assert len(pieces) == len(set(pieces))
    assert set(WORDS) <= set(pieces)


def test_joins_are_those_of_the_plain_algorithm():
    rng = random.Random(3)
    words = Counter("".join(rng.choices("abcd", k=rng.randint(1, 9))) for _ in range(400))
    found = list(learning._joined(words, 2))
    assert len(found) > 100
    assert found == list(_naive(words, 2))


def test_order_of_words_does_not_matter():
    backwards = dict(reversed(WORDS.items()))
    assert learning.learn(WORDS, 45, num_unused=1) == learning.learn(backwards, 45, num_unused=1)


def test_size(caplog):
    with caplog.at_level("WARNING", "bert_tf"):
        assert len(learning.learn(WORDS, 33, num_unused=1)) == 33
        assert not caplog.records
        pieces = learning.learn(WORDS, 1000, num_unused=1)
    assert (
        f"gives only {len(pieces)} pieces that occur 2 times, not --vocab_size=1000" in caplog.text
    )
    with pytest.raises(UserError, match=r"--vocab_size=20 is too small: .* alone are 27"):
        learning.learn(WORDS, 20, num_unused=1)


def test_rare_characters_are_left_out():
    pieces = learning.learn({**WORDS, "caf\u00e9": 1, "\u535a": 2}, 100, num_unused=1)
    assert not {"\u00e9", "##\u00e9", "##\u535a"} & set(pieces)
    assert "\u535a" in pieces


def test_published_ids():
    pieces = learning.learn(WORDS, 1000)
    assert [pieces.index(piece) for piece in ("[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [
        100, 101, 102, 103,
    ]  # fmt: skip


def test_text_to_tokenizer(tmp_path):
    """A vocabulary from a text spells every word of that text."""
    text = tmp_path / "text.txt"
    text.write_text("Wer wagt, gewinnt!\nWir wägten und gewannen \u535a\u535a.\n" * 2)
    words = learning.count_words([str(text)])
    assert words["wagten"] == 2 and words["\u535a"] == 4 and words[","] == 2
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(learning.learn(words, 150)))
    tokenizer = tokenization.FullTokenizer(str(path))
    assert "[UNK]" not in tokenizer.tokenize(text.read_text())
    cased = learning.count_words([str(text)], do_lower_case=False)
    assert cased["wägten"] == cased["Wer"] == 2
    text.write_text("\n")
    with pytest.raises(UserError, match=r"text\.txt: there are no words in it"):
        learning.count_words([str(text)])


def test_memory_is_bounded(tmp_path, caplog):
    """Rare words come and go, the frequent ones are counted to the last."""
    rng = random.Random(5)
    text = tmp_path / "text.txt"
    lines = [f"often {'now' if index % 3 else 'then'} word{rng.randrange(10**6)} x" for index in
             range(3000)]  # fmt: skip
    text.write_text("\n".join(lines))
    with caplog.at_level("INFO", "bert_tf"):
        words = learning.count_words([str(text)], max_words=100)
    assert len(words) <= 104
    assert (words["often"], words["now"], words["then"], words["x"]) == (3000, 2000, 1000, 3000)
    assert "more than 100 different words: rare ones were left out" in caplog.text
    assert words == learning.count_words([str(text)], max_words=100)


def test_real_text(shared):
    """A quarter of the pieces of the English vocabulary spell its text not much worse."""
    words = learning.count_words([str(shared / "golden/pretraining/input_a.txt")])
    pieces = learning.learn(words, 3000)
    assert len(pieces) == len(set(pieces)) == 3000
    spell = tokenization.WordpieceTokenizer(set(pieces))
    spelled = sum(len(spell.tokenize(word)) * count for word, count in words.items())
    assert spelled / sum(words.values()) < 1.3
