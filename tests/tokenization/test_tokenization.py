"""The tokenizers give what the release gave, on its own outputs and on small made-up texts."""

import hashlib
import importlib.util
import itertools
import json
import random
import subprocess
import sys
import unicodedata

import hard_strings
import pytest

from bert_tf import tokenization
from bert_tf.errors import UserError
from bert_tf.tokenization import characters, table

UNICODE_14 = pytest.mark.skipif(
    unicodedata.unidata_version != table.UNICODE,
    reason="compares with this Python's Unicode data, which are not of 14.0",
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "want", "##want", "##ed", "wa", "un"]
PIECES += ["runn", "##ing", ",", "hello"]

# sha256 over every code point but the surrogates, by Unicode 14.0: see `hard_strings.digest`.
CODE_POINTS = {
    ("the{}of", True): "23d133eb831e8d592dbff9be51a74ec32e1418be2a28126b9f158767ab1f370a",
    ("the{}of", False): "809df483c6f71fc36ddf1e91572fbdb9480e80e6ed771ac52c8507bb311981b9",
    ("-{}of", True): "0b7b506807d0e0497e245b913e190d73b120d90cd70a4be9904f97d9f7996e0b",
    ("-{}of", False): "6165d34d0a1036126b7a5361f2dc7554777ee11db938a0a1e41bbeddf82f2155",
    ("the {} of", True): "82d2fe99cc4851a6bf397cb10f3788fc5b745b2f721f6b9b0348dda2d881bbe1",
    ("the {} of", False): "7675b29059af2862f9b2629c23cb4839a5559dd1966105fe72782f122d985e4a",
}


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def golden_tokenizers(shared):
    vocab = str(shared / "data/uncased_vocab.txt")
    return {lower: tokenization.FullTokenizer(vocab, lower) for lower in (True, False)}


@pytest.fixture(scope="module")
def rng(request):
    return hard_strings.fresh_random(request.config)


def test_golden_cases(shared, golden_tokenizers):
    lines = (shared / "golden/tokenization/cases.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2519
    for line in lines:
        case = json.loads(line)
        text = bytes.fromhex(case["bytes_hex"]) if "bytes_hex" in case else case["text"]
        for lower, key in ((True, "uncased"), (False, "cased")):
            tokenizer = golden_tokenizers[lower]
            tokens = tokenizer.tokenize(text)
            assert tokens == case[key], (case["set"], text)
            assert tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(tokens)
            words = tokenizer.basic_tokenizer.tokenize(text)
            assert tokenizer.wordpiece_tokenizer.tokenize(" ".join(words)) == tokens


@pytest.mark.parametrize(("context", "lower"), CODE_POINTS)
def test_every_code_point(golden_tokenizers, context, lower):
    tokenizer = golden_tokenizers[lower]
    found = hard_strings.digest(tokenizer.encode_batch, tokenizer.inv_vocab, context)
    assert found == CODE_POINTS[context, lower]


def test_release_digests_are_those_of_the_manifest(shared):
    manifest = json.loads((shared / "golden/tokenization/manifest.json").read_text())
    listed = {
        (case["context"], case["mode"] == "uncased"): case["sha256"]
        for case in manifest["code_points"]
    }
    assert listed == CODE_POINTS


@pytest.mark.parametrize(
    ("text", "lower", "words"),
    [
        (" \tHeLLo!how  \n Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("Ünïcode", True, ["unicode"]),
        ("Ünïcode", False, ["Ünïcode"]),
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        ("a\0b\ufffdc\u200dd", True, ["abcd"]),
        ("1$+~=^", True, ["1", "$", "+", "~", "=", "^"]),
        ("ΟΔΟΣ ΣΑΣ, ΑΣΑ", True, ["οδος", "σας", ",", "ασα"]),
        ("ΟΔΟΣ", False, ["ΟΔΟΣ"]),
        ("a\u2028b\u3000c", True, ["a", "b", "c"]),
        (b"caf\xc3\xa9\xff s", True, ["cafe", "s"]),
        ("", True, []),
    ],
)
def test_basic_tokenizer(text, lower, words):
    assert tokenization.BasicTokenizer(lower).tokenize(text) == words


@UNICODE_14
def test_table_agrees_with_whole_strings():
    """One character at a time gives what lower-casing and decomposing whole texts gives."""
    marks = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    alphabet = [*"aΣσİßẞǅ가각\u1e9b\u0344é,. ", *marks]
    rng = random.Random(1)
    kept = {mark for mark in marks if unicodedata.category(mark) != "Mn"}
    holders = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if kept.intersection(unicodedata.normalize("NFD", char.lower()))
    ]
    texts = ["a" + "".join(pair) for pair in itertools.product(holders, holders)]
    texts += ["".join(rng.choices(alphabet, k=12)) for _ in range(3000)]
    for text in texts:
        whole = unicodedata.normalize("NFD", text.lower())
        plain = "".join(char for char in whole if unicodedata.category(char) != "Mn")
        spaced = "".join(
            f" {char} " if unicodedata.category(char).startswith("P") else char for char in plain
        )
        assert characters.normalize(text, True).split() == spaced.split(), ascii(text)


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@UNICODE_14
@pytest.mark.parametrize("lower", [True, False])
def test_random_strings_against_a_plain_port(root, tmp_path, rng, lower):
    pieces = hard_strings.vocabulary(lower, rng)
    path = hard_strings.write_vocabulary(tmp_path / "vocab.txt", pieces)
    tokenizer = tokenization.FullTokenizer(path, lower)
    plain = _load(root / "benchmarks/plain_tokenizer.py").PlainTokenizer(tokenizer.vocab, lower)
    for _ in range(6000):
        text = tokenization.convert_to_unicode(hard_strings.string(rng))
        assert tokenizer.tokenize(text) == plain.tokenize(text), ascii(text)


def test_table_is_whole():
    path = table.__file__.replace("table.py", "unicode_table.txt")
    with open(path, "rb") as reader:
        assert hashlib.sha256(reader.read()).hexdigest() == table.SHA256
    assert (table.VERSION, table.UNICODE) == (1, "14.0.0")


@UNICODE_14
@pytest.mark.slow
def test_table_is_what_the_script_makes(root):
    make = _load(root / "tools/make_unicode_table.py")
    assert hashlib.sha256(make.make().encode()).hexdigest() == table.SHA256


def test_unicode_data_of_this_python_are_not_asked(root):
    for path in [*root.glob("*.py"), *root.glob("bert_tf/**/*.py")]:
        code = path.read_text(encoding="utf-8")
        assert "unicodedata" not in code, path
    code = """
import sys, types
sys.modules["unicodedata"] = None
package = types.ModuleType("bert_tf.tokenization")
package.__path__ = ["bert_tf/tokenization"]
sys.modules["bert_tf.tokenization"] = package
from bert_tf.tokenization import characters
assert characters.normalize("A\\u03a3 \\uac00", True) == "a\\u03c2 \\u1100\\u1161"
"""
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_wordpiece_tokenizer():
    tokenizer = tokenization.WordpieceTokenizer(dict.fromkeys(PIECES))
    assert tokenizer.tokenize("") == []
    assert tokenizer.tokenize("unwanted running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert tokenizer.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]
    short = tokenization.WordpieceTokenizer({"a", "##a"}, unk_token="?", max_input_chars_per_word=3)
    assert short.tokenize("aaa aaaa") == ["a", "##a", "##a", "?"]


def test_full_tokenizer(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file)
    pieces = ["un", "##want", "##ed", ",", "runn", "##ing", "[UNK]"]
    for _ in range(2):  # the second time from the cache
        assert tokenizer.tokenize("UNwant\u00e9d,running xyz") == pieces
    ids = [9, 6, 7, 12, 10, 11, 1]
    assert tokenizer.encode("UNwant\u00e9d,running xyz") == ids
    assert tokenizer.convert_tokens_to_ids(pieces) == ids
    assert tokenizer.convert_ids_to_tokens(ids) == pieces
    assert list(tokenizer.vocab) == PIECES
    assert tokenizer.inv_vocab[6] == "##want"
    tokenizer.encode("hello")[0] = 99
    tokenizer.encode("hello").append(99)
    assert tokenizer.encode("hello") == [13]


def test_batches(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file)
    texts = ["hello, wanted", b"hello\xff", "", "un\u200bwanted\nhello"]
    assert tokenizer.encode_batch(texts) == [[13, 12, 5, 7], [13], [], [9, 6, 7, 13]]
    assert tokenizer.encode_batch(iter(texts)) == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Cafe\u0301 noir", {"cafe": "Cafe\u0301", "noir": "noir"}),
        ("CAF\u00c9.", {"cafe": "CAF\u00c9", ".": "."}),
        ("a\u200bb\u200d c", {"a": "a", "##b": "b", "c": "c"}),
        ("\u5317\u4eac", {"\u5317": "\u5317", "\u4eac": "\u4eac"}),
        ("x\ud55c", {"x": "x", "##\u1112": "\ud55c", "##\u1161": "\ud55c", "##\u11ab": "\ud55c"}),
        ("\ufb01 \u1e9e", {"\ufb01": "\ufb01", "\u00df": "\u1e9e"}),
        ("\u2260\u0338", {"=": "\u2260\u0338"}),
        (b"\xffa \xc3\xa9", {"a": "a", "e": "\u00e9"}),
    ],
)
def test_offsets(tmp_path, text, tokens):
    path = hard_strings.write_vocabulary(
        tmp_path / "vocab.txt", ["[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokens]
    )
    tokenizer = tokenization.FullTokenizer(path)
    text_read = tokenization.convert_to_unicode(text)
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    assert tokenizer.convert_ids_to_tokens(ids) == list(tokens)
    spans = [text_read[start:end] for start, end in zip(starts, ends, strict=True)]
    assert spans == list(tokens.values())


@pytest.mark.parametrize("lower", [True, False])
def test_a_token_is_what_its_span_gives(tmp_path, rng, lower):
    """The span of a token, normalized again, is the token.

    More than the token where one character gives several; and a sigma, or a mark that Unicode
    sorts, needs its neighbours to be what it is in the text.
    """
    pieces = hard_strings.vocabulary(lower, rng)
    path = hard_strings.write_vocabulary(tmp_path / "vocab.txt", pieces)
    tokenizer = tokenization.FullTokenizer(path, lower)
    sorted_marks = "".join(map(chr, [*characters.MARKS, *characters.NOTES]))
    checked = 0
    for _ in range(4000):
        text = tokenization.convert_to_unicode(hard_strings.string(rng))
        ids, starts, ends = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        assert starts == sorted(starts) or not set(text).isdisjoint(sorted_marks)
        for index, start, end in zip(ids, starts, ends, strict=True):
            span = text[start:end]
            if index == tokenizer.vocab["[UNK]"] or not set(span).isdisjoint(sorted_marks):
                continue
            token = tokenizer.inv_vocab[index].removeprefix("##").replace("\u03c2", "\u03c3")
            again = characters.normalize(span, lower).strip().replace("\u03c2", "\u03c3")
            several = any(len(characters.normalize(char, lower).strip()) > 1 for char in span)
            assert token in again if several else token == again, (text, span)
            checked += 1
    assert checked > 4000


def test_full_tokenizer_errors(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file)
    with pytest.raises(UserError, match="'xyz' is not in the vocabulary"):
        tokenizer.convert_tokens_to_ids(["xyz"])
    with pytest.raises(UserError, match="id 99 is not in the vocabulary of 14 pieces"):
        tokenizer.convert_ids_to_tokens([99])
    with pytest.raises(UserError, match="str or bytes, not int"):
        tokenizer.tokenize(3)


def test_load_vocab_errors(tmp_path):
    path = tmp_path / "vocab.txt"
    with pytest.raises(UserError, match=r"vocab\.txt: cannot be read"):
        tokenization.load_vocab(str(path))
    path.write_text("")
    with pytest.raises(UserError, match=r"vocab\.txt: the vocabulary is empty"):
        tokenization.load_vocab(str(path))
    path.write_text("[PAD]\n[UNK]\n[SEP]\nhello\n")
    with pytest.raises(UserError, match=r"vocab\.txt: not the .* \[CLS\], \[MASK\] is not among"):
        tokenization.load_vocab(str(path))


def test_load_vocab_counts_lines_as_the_release(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[UNK]\r\n[CLS] \n[SEP]\n[MASK]\n\na\nb\x0bc\na\n[PAD]")
    with caplog.at_level("WARNING", "bert_tf"):
        vocab = tokenization.load_vocab(str(path))
    expected = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "", "a", "b\x0bc", "[PAD]"]
    assert list(vocab) == expected
    assert list(vocab.values()) == [0, 1, 2, 3, 4, 7, 6, 8]
    assert "1 of 9 lines repeat an earlier piece" in caplog.text
    assert "[PAD] has id 8" in caplog.text


@pytest.mark.parametrize(
    ("checkpoint", "lower", "warned"),
    [
        ("/models/uncased_L-12_H-768_A-12/bert_model.ckpt", False, True),
        ("/models/uncased_L-12_H-768_A-12/bert_model.ckpt", True, False),
        ("cased_L-24_H-1024_A-16/bert_model.ckpt", True, True),
        ("gs://x/wwm_cased_L-24_H-1024_A-16/bert_model.ckpt", True, True),
        ("gs://x/multi_cased_L-12_H-768_A-12/bert_model.ckpt", False, False),
        ("multi_cased_L-12_H-768_A-12", True, True),
        ("/m/multilingual_L-12_H-768_A-12/bert_model.ckpt", False, True),
        ("/m/chinese_L-12_H-768_A-12/bert_model.ckpt", True, False),
        ("/m/my_cased_model/bert_model.ckpt", True, False),
        (None, True, False),
    ],
)
def test_validate_case(checkpoint, lower, warned, caplog):
    with caplog.at_level("WARNING", "bert_tf"):
        tokenization.validate_case_matches_checkpoint(lower, checkpoint)
    assert bool(caplog.records) == warned
    if warned:
        assert f"--do_lower_case={lower} was given" in caplog.text
