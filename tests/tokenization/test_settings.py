"""Hugging Face's settings for accents and ideographs, and `tokenizer.json`."""

import itertools
import json
import pathlib
import re
import unicodedata

import pytest

from bert_tf import tokenization
from bert_tf.errors import UserError
from bert_tf.tokenization import normalization, vocabulary
from bert_tf.tokenization.settings import read_tokenizer_settings, tokenizer_config, tokenizer_json
from tests.tokenization import hard_strings

# do_lower_case, strip_accents, tokenize_chinese_chars
SETTINGS = list(itertools.product((True, False), repeat=3))
NAMES = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")


@pytest.fixture(scope="module")
def pieces(script_vocab):
    """Pieces of many scripts that the files of other programs can have."""
    found = dict.fromkeys(pathlib.Path(script_vocab).read_text(encoding="utf-8").split("\n"))
    return [piece for piece in found if piece.split() == [piece] and piece != "##"]


def agrees(char):
    """Return whether the release and the `tokenizers` library treat a character alike.

    The library mixes categories of an old Unicode version with the case mappings of a newer one, so
    only characters that were the same in Unicode 3.2 are compared. It always drops private use
    characters and has no final sigma.
    """
    category = unicodedata.category(char)
    is_old = unicodedata.ucd_3_2_0.category(char) == category
    return is_old and category not in ("Cn", "Co", "Cs") and char != normalization.SIGMA


@pytest.mark.parametrize(
    "rules", [pytest.param(x, marks=[pytest.mark.slow] * (sum(x) % 2)) for x in SETTINGS]
)
def test_transformers(transformers, pieces, tmp_path, rng, rules):
    options = dict(zip(NAMES, rules, strict=True))
    vocab = {piece: index for index, piece in enumerate(pieces)}
    theirs = transformers.BertTokenizer(vocab=vocab, split_special_tokens=True, **options)
    theirs.save_pretrained(tmp_path)
    assert not (tmp_path / "vocab.txt").exists()

    ours = tokenization.FullTokenizer(str(tmp_path / "tokenizer.json"))
    assert ours.settings == {**options, "max_input_chars_per_word": 100}
    texts = [hard_strings.string(rng).decode("utf-8", "ignore") for _ in range(1000)]
    texts = ["".join(filter(agrees, text)) for text in texts] + ["Über über", "x" * 101, "中文"]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    actual = ours.encode_batch(texts)
    assert [x for x in zip(texts, actual, expected, strict=True) if x[1] != x[2]] == []
    ids = list(itertools.chain(*expected))
    assert sum(index != vocab["[UNK]"] for index in ids) > 0.3 * len(ids)


@pytest.fixture
def hf_folder(tmp_path):
    """A function that writes the two files with changed fields and returns the folder."""
    vocab = {x: i for i, x in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "É"])}
    settings = {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True,
                "max_input_chars_per_word": 100}  # fmt: skip

    def write(change=lambda tokenizer, config: None):
        tokenizer = tokenizer_json(vocab, settings)
        config = tokenizer_config(settings, 512)
        change(tokenizer, config)
        (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return str(tmp_path)

    return write


def test_files_written_here(hf_folder):
    path = f"{hf_folder()}/tokenizer.json"
    tokenizer = tokenization.FullTokenizer(path)
    assert tokenizer.encode("É a") == [6, 5]
    assert vocabulary.vocabulary_text(path).split() == list(tokenizer.vocab)
    assert tokenization.FullTokenizer(path, do_lower_case=True).encode("É a") == [1, 5]


def test_gaps_in_the_ids(hf_folder):
    """As in transformers, the ids in the file are used."""
    folder = hf_folder(lambda t, c: t["model"]["vocab"].update(b=9, c=11))
    assert tokenization.FullTokenizer(f"{folder}/tokenizer.json").encode("a b c") == [5, 9, 11]


# A field, by its keys, and a value that is not supported.
TOKENIZER = [
    ("model type", "BPE"),
    ("model unk_token", "<unk>"),
    ("model continuing_subword_prefix", "@@"),
    ("model vocab", ["a"]),
    ("model max_input_chars_per_word", "x"),
    ("normalizer type", "Lowercase"),
    ("normalizer clean_text", False),
    ("normalizer lowercase", "yes"),
    ("normalizer", None),
    ("pre_tokenizer type", "Whitespace"),
    ("post_processor single", [{"Sequence": {"id": "A"}}]),
]
CONFIG = [
    ("do_basic_tokenize", False),
    ("word_tokenizer_type", "mecab"),
    ("subword_tokenizer_type", "character"),
    ("cls_token", "<s>"),
    ("strip_accents", 1),
    ("extra_special_tokens", "a"),
]


def change_of(name, field, value):
    """Return a function that changes a field, and the error message."""

    def change(*files):
        values = files[name == "tokenizer_config"]
        *parents, last = field.split()
        for parent in parents:
            values = values[parent]
        values[last] = value

    message = re.escape(f"{field.replace(' ', '.')} is {json.dumps(value)}")
    return change, rf"{name}\.json: .*{message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(change_of("tokenizer", *x) for x in TOKENIZER),
        *(change_of("tokenizer_config", *x) for x in CONFIG),
        (lambda t, c: t["model"]["vocab"].update(b=5), "model.vocab has 8 pieces, .* 7 different"),
        (lambda t, c: t["added_tokens"].append({"id": 7, "content": "<e1>"}), 'tokens has "<e1>"'),
        (lambda t, c: t["model"]["vocab"].pop("[MASK]"), "added_tokens has"),
        (lambda t, c: t.update(post_processor=None), "post_processor.type is null"),
    ],
)
def test_other_tokenizers_are_refused(hf_folder, change, message):
    with pytest.raises(UserError, match=message):
        tokenization.FullTokenizer(f"{hf_folder(change)}/tokenizer.json")


# Files next to a `vocab.txt` with [E1], and whether [E1] becomes one token.
ADDED = {"content": "[E1]", "lstrip": False, "rstrip": False, "normalized": False, "special": True}
PAD = {**ADDED, "content": "[PAD]"}
OLD_FILES = [
    ({}, True),
    ({"added_tokens": {"[E1]": 8}}, False),
    ({"added_tokens": {"[PAD]": 5}}, True),  # the id in the vocabulary is used
    ({"special_tokens_map": {"additional_special_tokens": ["[E1]"]}}, False),
    ({"special_tokens_map": {"extra_special_tokens": ["[CLS]", "[E1]"]}}, False),
    ({"special_tokens_map": {"unk_token": ADDED}}, False),
    ({"special_tokens_map": {"unk_token": "[UNK]", "pad_token": PAD, "bos_token": "[CLS]"}}, True),
    ({"tokenizer_config": {"extra_special_tokens": {"entity": "[E1]"}}}, False),
    ({"tokenizer_config": {"additional_special_tokens": None, "bos_token": None}}, True),
    ({"tokenizer_config": {"entity_token": "[E1]", "add_bos_token": False}}, False),
    ({"tokenizer_config": {"added_tokens_decoder": {"8": ADDED}}}, False),
    ({"tokenizer_config": {"added_tokens_decoder": {"0": PAD}}, "added_tokens": {"[E1]": 8},
      "special_tokens_map": {"additional_special_tokens": ["[E1]"]}}, True),
]  # fmt: skip


@pytest.mark.parametrize(("contents", "is_plain"), OLD_FILES)
def test_added_tokens_without_tokenizer_json(transformers, tmp_path, contents, is_plain):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "e1", "[E1]", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    for name, values in {"config": {"model_type": "bert"}, **contents}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = theirs("a [E1]", add_special_tokens=False)["input_ids"]
    assert ids == ([9, 5, 7, 6] if is_plain else [9, 8])
    if is_plain:
        assert tokenization.FullTokenizer.from_preset(str(tmp_path)).encode("a [E1]") == ids
    else:
        names = "|".join(contents)
        message = rf"({names})\.json: [a-z_ ]+ (has|is) \"\[E1\]\", which"
        with pytest.raises(UserError, match=message):
            tokenization.FullTokenizer.from_preset(str(tmp_path))


def test_which_file_counts(hf_folder):
    def settings(change):
        return read_tokenizer_settings(hf_folder(change))

    assert settings(lambda t, c: c.update(do_lower_case=True))["do_lower_case"] is True
    folder = hf_folder(lambda t, c: c.pop("tokenizer_class"))
    pathlib.Path(folder, "config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
    with pytest.raises(UserError, match=r'config\.json: tokenizer_class is "BertJapaneseTok'):
        read_tokenizer_settings(folder)

    def generic(tokenizer, config):
        config.update(do_lower_case=True, tokenizer_class="TokenizersBackend")

    assert settings(generic)["do_lower_case"] is False
