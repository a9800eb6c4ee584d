"""Fixtures for tokenizer tests: seeds, vocabularies and tokenizers."""

import json
import lzma
import os
import random

import pytest

from bert_tf import tokenization
from tests import common
from tests.tokenization import hard_strings


@pytest.fixture(scope="session")
def seed():
    """BERT_TF_TEST_SEED, or a random seed."""
    return int(os.environ.get("BERT_TF_TEST_SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture
def rng(seed, request):
    """A `random.Random`; pytest shows its seed if the test fails."""
    print(f"BERT_TF_TEST_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def vocab_name(request):
    """The vocabulary of the golden tokens: "project", or "published" if a test requests it."""
    return getattr(request, "param", "project")


@pytest.fixture(scope="session")
def golden_cases(vocab_name, golden, request):
    """The release's tokens: a list of (bytes or str, {do_lower_case: tokens})."""
    if vocab_name == "project":
        text = lzma.decompress((golden / "tokenization.jsonl.xz").read_bytes()).decode()
    else:
        shared = request.getfixturevalue("shared")
        text = (shared / "golden/tokenization/cases.jsonl").read_text(encoding="utf-8")
    lines = text.splitlines()
    cases = []
    for case in map(json.loads, lines):
        text = bytes.fromhex(case["bytes_hex"]) if "bytes_hex" in case else case["text"]
        cases.append((text, {True: case["uncased"], False: case["cased"]}))
    return cases


@pytest.fixture(scope="session")
def golden_tokenizers(vocab_name, golden, request):
    """A dict from do_lower_case to a `FullTokenizer` with the vocabulary."""
    if vocab_name == "project":
        vocab = str(golden / "vocab.txt")
    else:
        vocab = request.getfixturevalue("published_vocab")
    return {lower: tokenization.FullTokenizer(vocab, lower) for lower in (True, False)}


@pytest.fixture(scope="session")
def code_point_digests(vocab_name, manifest, request):
    """sha256 of the release's tokens of all code points, by (context, do_lower_case).

    They have Unicode 14.0 and no surrogates; see `hard_strings.digest`.
    """
    if vocab_name == "published":
        folder = request.getfixturevalue("shared") / "golden/tokenization"
        manifest = json.loads((folder / "manifest.json").read_text())
    return {(x["context"], x["mode"] == "uncased"): x["sha256"] for x in manifest["code_points"]}


@pytest.fixture(scope="session")
def script_vocab(seed, tmp_path_factory):
    """The path of a vocabulary of many scripts, with upper case and without."""
    pieces = {}
    for lower in (True, False):
        rng = random.Random(f"{seed} {lower}")
        pieces |= dict.fromkeys(hard_strings.vocabulary(lower, rng))
    folder = tmp_path_factory.mktemp("vocab")
    return str(common.write_vocab(folder, [*pieces, "twice"]))


@pytest.fixture
def write_vocab(tmp_path):
    """A function that writes a list of pieces as a vocabulary and returns its path."""
    return lambda pieces: str(common.write_vocab(tmp_path, pieces))
