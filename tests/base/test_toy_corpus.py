"""The toy text: the same everywhere, balanced, and with nothing to give the labels away."""

import collections
import hashlib
import math
import os
import re
import subprocess
import sys

import pytest

from bert_tf import toy_corpus
from bert_tf.toy_corpus import grammar, words, world


@pytest.fixture(scope="module")
def texts():
    return toy_corpus.make()


def rows(text):
    return [tuple(line.split("\t")) for line in text.splitlines()[1:]]


def tokens(text):
    return re.findall(r"[a-z]+|[^\sa-z]", text.lower())


def majority(train, test, feature):
    """Test accuracy of: the label that the feature's value had more often in train."""
    votes = collections.defaultdict(collections.Counter)
    for text, label in train:
        votes[feature(text)][label] += 1
    guess = {value: count.most_common(1)[0][0] for value, count in votes.items()}
    return sum(guess.get(feature(text), words.MOODS[0]) == label for text, label in test) / len(
        test
    )


def naive_bayes(train, test, terms):
    """Test accuracy of naive Bayes on `terms(text)`."""
    seen = {mood: collections.Counter() for mood in words.MOODS}
    for text, label in train:
        seen[label].update(set(terms(text)))
    known = set().union(*seen.values())

    def score(text, mood):
        return sum(math.log(seen[mood][term] + 1) for term in terms(text) if term in known)

    right = 0
    for text, label in test:
        guess = max(words.MOODS, key=lambda mood: score(text, mood))
        right += guess == label
    return right / len(test)


def test_same_seed_same_bytes(texts):
    # A digest, not a second run: it must not depend on the version of Python either.
    digest = hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()
    assert digest[:16] == "a68697d07495a90f"
    assert toy_corpus.make(seed=1)["corpus"] != texts["corpus"]
    assert toy_corpus.make(train=3)["corpus"] == texts["corpus"]


def test_sizes(texts):
    assert 500_000 < len(texts["corpus"]) < 1_500_000
    assert texts["corpus"].isascii()
    vocabulary = collections.Counter(tokens(texts["corpus"]))
    assert 600 < len(vocabulary) < 1200
    lines = texts["corpus"].splitlines()
    assert len(lines) / len(set(lines)) < 1.5  # Most sentences come once.
    assert [len(rows(texts[name])) for name in ("train", "dev", "test")] == [160, 200, 400]


def test_corpus_says_what_it_is(texts):
    about = texts["corpus"].split("\n\n")[0]
    assert "generated" in about and "Apache License" in about
    documents = texts["corpus"].strip().split("\n\n")
    assert min(len(document.splitlines()) for document in documents) >= 5


def test_heldout_documents_are_others(texts):
    seen = set(texts["corpus"].split("\n\n"))
    assert not seen & set(texts["heldout"].split("\n\n"))


def test_every_document_has_one_mood(texts):
    own = {}
    for mood in words.MOODS:
        other = next(name for name in words.MOODS if name != mood)
        own[mood] = {entry for category in words.WORDS[mood].values() for entry in category}
        assert not own[mood] & {e for category in words.WORDS[other].values() for e in category}
    pattern = {
        mood: re.compile(r"\b(" + "|".join(sorted(entries)) + r")\b")
        for mood, entries in own.items()
    }
    documents = texts["corpus"].split("\n\n")[1:]
    count = collections.Counter()
    for document in documents:
        moods = [mood for mood in words.MOODS if pattern[mood].search(document)]
        assert len(moods) <= 1, document
        count.update(moods)
    assert abs(count["pleased"] - count["displeased"]) <= 10


def test_word_lists_mirror_each_other():
    pleased, displeased = (words.WORDS[mood] for mood in words.MOODS)
    assert list(pleased) == list(displeased)
    for category in pleased:
        assert len(pleased[category]) == len(set(pleased[category]))
        assert [len(e.split()) for e in pleased[category]] == [
            len(e.split()) for e in displeased[category]
        ], category
    assert sum(map(len, pleased.values())) > 120
    frames = grammar.FACTS + grammar.OPENINGS + grammar.LABELLED_FRAMES + grammar.PLAIN_CLAUSES
    neutral = set(tokens(re.sub(r"[{\[]\w+[}\]]", " ", " ".join(frames))))
    for table in (world.LISTS, *world.KINDS.values()):
        neutral |= {word for entries in table.values() for word in tokens(" ".join(entries))}
    for mood in words.MOODS:
        for category, entries in words.WORDS[mood].items():
            if category != "consequence":
                assert not neutral & set(entries)


def test_labelled_sets_have_no_common_words(texts):
    """Words of a mood that are everywhere in the corpus would give test labels away from train."""
    common = {word for pair in words.COMMON.values() for word in pair}
    for name in ("train", "dev", "test"):
        assert not common & set(tokens(texts[name]))
    assert common < set(tokens(texts["corpus"]))


def test_typed_sentences_are_new(texts):
    train = {word for text, _ in rows(texts["train"]) for word in tokens(text)}
    entries = {e for m in words.MOODS for c in words.WORDS[m].values() for e in c}
    everything = "".join(texts.values()).lower()
    for text in toy_corpus.TYPED:
        assert text.lower().rstrip(".!") not in everything
        assert len(entries & set(tokens(text))) >= 2
        assert not entries & set(tokens(text)) & train


def test_training_words_never_come_in_dev_or_test(texts):
    """Not even their stems: no mood word of dev and test begins like one of train."""

    def stems(entries):
        # Words that both moods have, "the" or "home", are no mood words.
        found = {mood: set() for mood in words.MOODS}
        for mood in words.MOODS:
            for category in words.WORDS[mood]:
                for entry in entries(mood, category):
                    found[mood] |= {word[:4] for word in entry.split() if len(word) > 3}
        return found["pleased"] ^ found["displeased"]

    assert not stems(words.shown) & stems(words.kept_back)
    seen = {word for text, _ in rows(texts["train"]) for word in tokens(text)}
    for mood in words.MOODS:
        for category in words.WORDS[mood]:
            for entry in words.kept_back(mood, category):
                assert not any(entry == text for text in seen), entry
    shown = {e for mood in words.MOODS for c in words.WORDS[mood] for e in words.shown(mood, c)}
    for name in ("dev", "test"):
        for text, _ in rows(texts[name]):
            assert not any(re.search(rf"\b{entry}\b", text.lower()) for entry in shown), text


def test_labelled_sets_share_no_text_with_each_other_or_the_corpus(texts):
    read = set((texts["corpus"] + texts["heldout"]).splitlines())
    labelled = [text for name in ("train", "dev", "test") for text, _ in rows(texts[name])]
    assert len(labelled) == len(set(labelled))
    assert not read & set(labelled)
    corpus = texts["corpus"].lower()
    assert not any(text.lower().rstrip(".") in corpus for text in labelled)


@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_labels_are_balanced(texts, name):
    labels = collections.Counter(label for _, label in rows(texts[name]))
    assert set(labels) == set(words.MOODS) and len(set(labels.values())) == 1


def test_nothing_but_the_corpus_tells_the_label(texts):
    train, test = rows(texts["train"]), rows(texts["test"])

    def near_chance(accuracy):
        return abs(accuracy - 0.5) < 0.07

    assert near_chance(majority(train, test, len))
    assert near_chance(majority(train, test, lambda text: len(text) // 10))
    assert near_chance(majority(train, test, lambda text: len(text.split())))
    assert near_chance(majority(train, test, lambda text: re.sub(r"\w", "", text)))
    assert near_chance(majority(train, test, lambda text: text.split()[0]))
    assert near_chance(naive_bayes(train, test, tokens))
    # The training set itself can be learnt: its mood words come in dev and test never.
    assert naive_bayes(train, train, tokens) > 0.95


def test_writes_files_by_the_module(tmp_path, root):
    run = subprocess.run(
        [sys.executable, "-m", "bert_tf.toy_corpus", f"--output_dir={tmp_path}/text", "--seed=3"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = ["corpus.txt", "dev.tsv", "heldout.txt", "test.tsv", "train.tsv"]
    assert sorted(os.listdir(tmp_path / "text")) == names
    assert all(name in run.stderr for name in names)
    made = toy_corpus.make(seed=3)
    assert (tmp_path / "text" / "test.tsv").read_text() == made["test"]
    wrong = subprocess.run(
        [sys.executable, "-m", "bert_tf.toy_corpus"], cwd=root, capture_output=True, text=True
    )
    assert (
        wrong.returncode == 1 and "output_dir" in wrong.stderr and "Traceback" not in wrong.stderr
    )
