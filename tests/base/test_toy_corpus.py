"""The toy corpus is reproducible and balanced, and only sentiment words predict its labels."""

import collections
import hashlib
import math
import os
import re
import subprocess
import sys

import pytest

from examples import toy_corpus
from examples.toy_corpus import words


@pytest.fixture(scope="module")
def texts():
    return toy_corpus.make()


def read_rows(text):
    """Return the (text, label) rows of a labelled split."""
    return [tuple(line.split("\t")) for line in text.splitlines()[1:]]


def split_tokens(text):
    return re.findall(r"[a-z]+|[^\sa-z]", text.lower())


def all_entries(sentiment, entries=lambda sentiment, name: words.SENTIMENT_WORDS[sentiment][name]):
    """Return the set of sentiment words of all categories."""
    return {word for name in words.SENTIMENT_WORDS[sentiment] for word in entries(sentiment, name)}


def majority_accuracy(train, test, feature):
    """Return the test accuracy of predicting the most frequent label of a feature in `train`."""
    votes = collections.defaultdict(collections.Counter)
    for text, label in train:
        votes[feature(text)][label] += 1
    guess = {value: count.most_common(1)[0][0] for value, count in votes.items()}
    correct = [guess.get(feature(text), words.SENTIMENTS[0]) == label for text, label in test]
    return sum(correct) / len(test)


def naive_bayes_accuracy(train, test):
    """Return the test accuracy of naive Bayes on tokens."""
    counts = {sentiment: collections.Counter() for sentiment in words.SENTIMENTS}
    for text, label in train:
        counts[label].update(set(split_tokens(text)))
    known = set().union(*counts.values())

    def score(text, label):
        tokens = split_tokens(text)
        return sum(math.log(counts[label][token] + 1) for token in tokens if token in known)

    guesses = [max(words.SENTIMENTS, key=lambda label: score(text, label)) for text, _ in test]
    return sum(guess == label for guess, (_, label) in zip(guesses, test, strict=True)) / len(test)


def test_same_seed_same_bytes(texts):
    # A digest, because the text must also be equal on every version of Python.
    digest = hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()
    assert digest[:16] == "a68697d07495a90f"
    small = {"corpus": 1, "train": 1, "dev": 1, "test": 1}
    assert toy_corpus.make(**small)["heldout"] == texts["heldout"]
    assert toy_corpus.make(seed=1, **small)["heldout"] != texts["heldout"]


def test_training_words_never_occur_in_dev_or_test(texts):
    """No sentiment word of dev or test shares its first four letters with one of train."""

    def stems(entries):
        # Words that occur with both sentiments, such as "the", are neutral.
        found = [
            {word[:4] for entry in all_entries(name, entries) for word in entry.split() if word[3:]}
            for name in words.SENTIMENTS
        ]
        return found[0] ^ found[1]

    assert not stems(words.train_words) & stems(words.unseen_words)
    train = {word for text, _ in read_rows(texts["train"]) for word in split_tokens(text)}
    for sentiment in words.SENTIMENTS:
        assert not train & all_entries(sentiment, words.unseen_words)
    shown = [all_entries(sentiment, words.train_words) for sentiment in words.SENTIMENTS]
    pattern = re.compile(r"\b(" + "|".join(sorted(shown[0] | shown[1])) + r")\b")
    for name in ("dev", "test"):
        for text, _ in read_rows(texts[name]):
            assert not pattern.search(text.lower()), text


def test_only_the_corpus_predicts_the_test_labels(texts):
    train, test = read_rows(texts["train"]), read_rows(texts["test"])
    for feature in (
        len,
        lambda text: len(text) // 10,
        lambda text: len(text.split()),
        lambda text: re.sub(r"\w", "", text),
        lambda text: text.split()[0],
    ):
        assert abs(majority_accuracy(train, test, feature) - 0.5) < 0.07
    assert abs(naive_bayes_accuracy(train, test) - 0.5) < 0.07
    # The training set itself can be learned.
    assert naive_bayes_accuracy(train, train) > 0.95


def test_module_writes_the_files(tmp_path, root):
    def run(*flags):
        command = [sys.executable, "-m", "examples.toy_corpus", *flags]
        return subprocess.run(command, cwd=root, capture_output=True, text=True)

    done = run(f"--output_dir={tmp_path}/text", "--seed=3")
    assert done.returncode == 0, done.stderr
    names = ["corpus.txt", "dev.tsv", "heldout.txt", "test.tsv", "train.tsv"]
    assert sorted(os.listdir(tmp_path / "text")) == names
    assert all(name in done.stderr for name in names)
    texts = toy_corpus.make(seed=3)
    for name in names:
        assert (tmp_path / "text" / name).read_text() == texts[name.partition(".")[0]]
    failed = run()
    assert failed.returncode == 1
    assert "output_dir" in failed.stderr and "Traceback" not in failed.stderr
