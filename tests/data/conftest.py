"""Fixtures for pre-training data: a small vocabulary, corpus and folder of text."""

import random

import pytest

from bert_tf import tokenization
from bert_tf.data.pretraining import corpus as corpus_module
from bert_tf.data.pretraining import writing
from tests.common import write_vocab
from tests.data.pretraining_helpers import TOKENS, random_text, read_corpus


@pytest.fixture
def tokenizer(tmp_path):
    """A `FullTokenizer` of the tokens in `pretraining_helpers`."""
    return tokenization.FullTokenizer(str(write_vocab(tmp_path, TOKENS)))


@pytest.fixture
def corpus(tokenizer, tmp_path):
    """A `Corpus` of 20 random documents."""
    (tmp_path / "corpus.txt").write_text(random_text(random.Random(1), 20))
    return read_corpus([tmp_path / "corpus.txt"], tokenizer)


@pytest.fixture
def text_folder(tmp_path, monkeypatch):
    """The working directory, with vocab.txt and 11 documents in each of a.txt and b.txt."""
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    for seed, name in enumerate(("a.txt", "b.txt")):
        (tmp_path / name).write_text(random_text(random.Random(seed), 11))
    monkeypatch.chdir(tmp_path)
    # Split even a small text into several chunks, so that processes share them.
    monkeypatch.setattr(corpus_module, "_CHUNK_SIZE", 500)
    # Write each shard's tokens in several steps.
    monkeypatch.setattr(writing, "_BUFFER_SIZE", 1000)
    return tmp_path
