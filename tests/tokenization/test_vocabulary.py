"""Vocabularies: files, casing, added and learned words; Hugging Face's settings and files."""

import itertools
import json
import pathlib
import random
import re
import unicodedata

import pytest

from bert_tf import BertConfig, tokenization
from bert_tf.errors import UserError
from bert_tf.tokenization import normalization, vocabulary
from bert_tf.tokenization.settings import read_tokenizer_settings, tokenizer_config, tokenizer_json
from tests.tokenization import hard_strings

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORD_COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, ".": 9}
PIECES = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"vocab\.txt: .*empty"),
        ("[PAD]\n[UNK]\n[SEP]\nhello\n", r"vocab\.txt: .* \[CLS\] .* 4 pieces"),
    ],
)
def test_load_vocab_errors(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_text(content)
    with pytest.raises(UserError, match=message):
        tokenization.load_vocab(f"{tmp_path}/vocab.txt")


def test_load_vocab_counts_lines_as_the_release(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[UNK]\r\n[CLS] \n[SEP]\n[MASK]\n\na\nb\x0bc\na\n[PAD]")
    with caplog.at_level("WARNING", "bert_tf"):
        vocab = tokenization.load_vocab(str(path))
    assert list(vocab) == ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "", "a", "b\x0bc", "[PAD]"]
    assert list(vocab.values()) == [0, 1, 2, 3, 4, 7, 6, 8]
    assert "1 of 9 lines" in caplog.text
    assert "[PAD] has id 8" in caplog.text


@pytest.mark.parametrize(
    ("checkpoint", "lower", "warned"),
    [
        ("/models/uncased_L-12_H-768_A-12/bert_model.ckpt", False, True),
        ("gs://x/multi_cased_L-12_H-768_A-12/bert_model.ckpt", False, False),
        ("/m/multilingual_L-12_H-768_A-12/bert_model.ckpt", False, True),
        ("/m/chinese_L-12_H-768_A-12/bert_model.ckpt", True, False),
        ("/m/my_cased_model/bert_model.ckpt", True, False),
    ],
)
def test_validate_case(checkpoint, lower, warned, caplog):
    with caplog.at_level("WARNING", "bert_tf"):
        tokenization.validate_case_matches_checkpoint(lower, checkpoint)
    assert bool(caplog.records) == warned
    if warned:
        assert f"`do_lower_case={lower}` was given" in caplog.text


@pytest.mark.parametrize(
    ("pieces", "lower", "warned"),
    [
        (["the", "##s", "The", "London"], True, True),
        (["the", "##s", "a"], False, True),
        (["\u5317"] * 99 + ["A"], True, False),  # the Chinese model
        (["\u5317", "\u4eac", "##\u4eac", "\u0939"], False, False),  # a script without case
    ],
)
def test_validate_case_of_the_pieces(pieces, lower, warned, caplog):
    vocab = ["[PAD]", "[unused1]", "[CLS]", *pieces]
    with caplog.at_level("WARNING", "bert_tf"):
        tokenization.vocabulary.validate_case_matches_vocabulary(lower, vocab, "v.txt")
    assert bool(caplog.records) == warned
    assert not warned or f"`do_lower_case={lower}`" in caplog.text


def test_a_vocabulary_of_whole_words_is_reported(caplog):
    vocabulary.check_vocabulary({"[PAD]": 0, "a": 1}, BertConfig(2), "v.txt")
    assert "no piece of v.txt starts with ##" in caplog.text


def test_added_words_take_the_slots_in_order():
    new_pieces, added = tokenization.add_words(PIECES, ["lynx", "cat", "##ish", "lynx"])
    assert added == ["lynx", "##ish"]
    assert new_pieces == ["[PAD]", "lynx", "##ish", *PIECES[3:]]
    assert PIECES[1] == "[unused0]"


@pytest.mark.parametrize(
    ("word", "lower", "reading"),
    [
        ("two words", False, "two words"),
        ("caf\u00e9", True, "cafe"),
        ("\u200b", True, "nothing"),
    ],
)
def test_words_that_the_tokenizer_never_finds(word, lower, reading):
    with pytest.raises(UserError) as error:
        tokenization.add_words(PIECES, [word], lower)
    error.match(f"{reading}$")
    assert repr(word) in str(error.value)


def test_added_words_follow_the_casing_and_fit():
    assert tokenization.add_words(PIECES, ["Lynx", "caf\u00e9"], False)[1] == ["Lynx", "caf\u00e9"]
    with pytest.raises(UserError, match=r"3 .* 2,"):
        tokenization.add_words(PIECES, ["a", "b", "c"])


def test_vocab_add(run_script, tmp_path):
    vocab, words, output = (tmp_path / name for name in ("vocab.txt", "words.txt", "new/vocab.txt"))
    vocab.write_text("\n".join(PIECES) + "\n")
    words.write_text("lynx\n\ncat\n")
    flags = [f"--vocab_file={vocab}", f"--words_file={words}", f"--output_file={output}"]
    log = run_script("bert-tf vocab add", *flags)
    assert f"{output}: 1 words added in [unusedN] slots, 1 already in the vocabulary" in log
    assert output.read_text().split() == [PIECES[0], "lynx", *PIECES[2:]]
    words.write_text("Lynx\n")
    with pytest.raises(UserError, match="'Lynx'"):
        run_script("bert-tf vocab add", *flags)
    with pytest.raises(UserError, match=r"--words_file: .*gone\.txt"):
        run_script("bert-tf vocab add", *flags, f"--words_file={tmp_path}/gone.txt")


def test_vocab_learn(run_script, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose\n" * 3)
    flags = [f"--input_file={tmp_path}/t*.txt", "--vocab_size=30", "--num_unused=2"]
    log = run_script("bert-tf vocab learn", *flags, f"--vocab_file={tmp_path}/new/vocab.txt")
    pieces = (tmp_path / "new/vocab.txt").read_text().splitlines()
    assert f"{len(pieces)} pieces" in log
    assert pieces[:4] == ["[PAD]", "[unused0]", "[unused1]", "[UNK]"] and "rose" in pieces
    with pytest.raises(UserError, match=r"--vocab_file: .*text\.txt"):
        run_script("bert-tf vocab learn", *flags, f"--vocab_file={text}")


def test_order_of_learned_pieces():
    pieces = vocabulary.learn(WORD_COUNTS, vocab_size=100, num_unused=1)
    assert pieces == vocabulary.learn(dict(reversed(WORD_COUNTS.items())), 100, num_unused=1)
    assert pieces[:6] == SPECIAL
    plain = sorted(set("".join(WORD_COUNTS)))
    assert pieces[6 : 6 + len(plain)] == plain
    inner = sorted("##" + char for char in set("".join(WORD_COUNTS)) - {"."})
    start = 6 + len(plain) + len(inner)
    assert pieces[6 + len(plain) : start] == inner
    # If counts are equal, the pair with the lower ids is merged first.
    assert pieces[start : start + 5] == ["##es", "##est", "lo", "low", "ne"]
    assert len(pieces) == len(set(pieces))
    assert set(WORD_COUNTS) <= set(pieces)


def test_learned_size(caplog):
    with caplog.at_level("WARNING", "bert_tf"):
        assert len(vocabulary.learn(WORD_COUNTS, 33, num_unused=1)) == 33
        assert not caplog.records
        pieces = vocabulary.learn(WORD_COUNTS, 1000)
        assert pieces == vocabulary.learn(WORD_COUNTS, 2**63 - 1)  # reserves no memory
    assert f"only {len(pieces)} pieces" in caplog.text and "`vocab_size=1000`" in caplog.text
    published = [pieces.index(piece) for piece in ("[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    assert published == [100, 101, 102, 103]
    with pytest.raises(UserError, match=r"`vocab_size=20`: .* 27\b"):
        vocabulary.learn(WORD_COUNTS, 20, num_unused=1)
    # The error comes before the slots are made, which would take all memory.
    with pytest.raises(UserError, match=r"^`vocab_size=100`: .*`num_unused=10{12}`"):
        vocabulary.learn(WORD_COUNTS, 100, num_unused=10**12)


def test_rare_characters_are_left_out():
    words = {**WORD_COUNTS, "caf\u00e9": 1, "\u535a": 2}
    pieces = vocabulary.learn(words, 100, num_unused=1)
    assert vocabulary.learn(words, 100, 10**30, 1) == vocabulary.learn(words, 100, 10**9, 1)
    assert not {"\u00e9", "##\u00e9", "##\u535a"} & set(pieces)
    assert "\u535a" in pieces


def test_learned_vocabulary_spells_its_text(tmp_path, write_vocab):
    text = tmp_path / "text.txt"
    text.write_text("Wer wagt, gewinnt!\nWir wägten und gewannen \u535a\u535a.\n" * 2)
    words = vocabulary.count_words([str(text)])
    assert words["wagten"] == 2 and words["\u535a"] == 4 and words[","] == 2
    tokenizer = tokenization.FullTokenizer(write_vocab(vocabulary.learn(words, 150)))
    assert "[UNK]" not in tokenizer.tokenize(text.read_text())
    cased = vocabulary.count_words([str(text)], do_lower_case=False)
    assert cased["wägten"] == cased["Wer"] == 2
    text.write_text("\n")
    with pytest.raises(UserError, match=r"text\.txt: .*no words"):
        vocabulary.count_words([str(text)])


def test_memory_for_counting_is_bounded(tmp_path, caplog):
    """Rare words are dropped, but frequent words are counted exactly."""
    rng = random.Random(5)
    text = tmp_path / "text.txt"
    lines = [
        f"often {'now' if index % 3 else 'then'} word{rng.randrange(10**6)} x"
        for index in range(3000)
    ]
    text.write_text("\n".join(lines))
    with caplog.at_level("INFO", "bert_tf"):
        words = vocabulary.count_words([str(text)], max_words=100)
    assert len(words) <= 104
    assert (words["often"], words["now"], words["then"], words["x"]) == (3000, 2000, 1000, 3000)
    assert "more than 100 distinct words" in caplog.text
    assert words == vocabulary.count_words([str(text)], max_words=100)


# Hugging Face's settings for accents and ideographs, and `tokenizer.json`.


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
    # As in transformers, the ids in the file are used.
    path = hf_folder(lambda t, c: t["model"]["vocab"].update(b=9, c=11)) + "/tokenizer.json"
    assert tokenization.FullTokenizer(path).encode("a b c") == [5, 9, 11]


# A field, by its keys, and a value that is not supported.
TOKENIZER = [
    ("model type", "BPE"),
    ("model unk_token", "<unk>"),
    ("model continuing_subword_prefix", "@@"),
    ("model vocab", ["a"]),
    ("normalizer type", "Lowercase"),
    ("normalizer clean_text", False),
    ("normalizer", None),
    ("pre_tokenizer type", "Whitespace"),
    ("post_processor single", [{"Sequence": {"id": "A"}}]),
]
CONFIG = [
    ("do_basic_tokenize", False),
    ("word_tokenizer_type", "mecab"),
    ("subword_tokenizer_type", "character"),
    ("cls_token", "<s>"),
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
