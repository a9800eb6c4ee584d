"""The Python tokenizers give the release's tokens, on recorded outputs and small texts."""

import tracemalloc

import pytest

import bert_tf
from bert_tf import tokenization
from bert_tf.data import dynamic_masking
from bert_tf.errors import UserError
from bert_tf.tasks.fill_mask.task import FillMaskConfig
from bert_tf.tokenization import normalization
from tests.tokenization import hard_strings

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "want", "##want", "##ed", "wa", "un"]
PIECES += ["runn", "##ing", ",", "hello"]


@pytest.fixture
def tokenizer(write_vocab):
    return tokenization.FullTokenizer(write_vocab(PIECES))


@pytest.mark.parametrize("vocab_name", ["project", "published"], indirect=True)
def test_golden_cases(golden_cases, golden_tokenizers):
    assert len(golden_cases) == 2519
    for text, expected in golden_cases:
        for lower, tokenizer in golden_tokenizers.items():
            tokens = tokenizer.tokenize(text)
            assert tokens == expected[lower], text
            assert tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(tokens)
            words = tokenizer.basic_tokenizer.tokenize(text)
            assert tokenizer.wordpiece_tokenizer.tokenize(" ".join(words)) == tokens


def test_options_of_the_wordpiece_tokenizer():
    short = tokenization.WordpieceTokenizer({"a", "##a"}, unk_token="?", max_input_chars_per_word=3)
    assert short.tokenize("aaa aaaa") == ["a", "##a", "##a", "?"]


def test_full_tokenizer(tokenizer):
    ids = [9, 6, 7, 12, 10, 11, 1]
    for _ in range(2):  # the second time uses the cache
        assert tokenizer.encode("UNwant\u00e9d,running xyz") == ids
    texts = ["hello, wanted", b"hello\xff", "", "un\u200bwanted\nhello"]
    assert tokenizer.encode_batch(iter(texts)) == [[13, 12, 5, 7], [13], [], [9, 6, 7, 13]]
    # Changing a result does not change the cache.
    tokenizer.encode("hello")[0] = 99
    tokenizer.encode("hello").append(99)
    assert tokenizer.encode("hello") == [13]


def test_functions_of_the_release(tokenizer):
    """Forks call the functions of the release's module. Unknown pieces are errors."""
    ids, pieces = [9, 6, 7], ["un", "##want", "##ed"]
    for convert in (tokenization.convert_tokens_to_ids, tokenization.convert_by_vocab):
        assert convert(tokenizer.vocab, pieces) == ids
        with pytest.raises(UserError, match="'xyz'"):
            convert(tokenizer.vocab, ["xyz"])
    assert tokenization.convert_ids_to_tokens(tokenizer.inv_vocab, ids) == pieces
    for convert in (tokenization.printable_text, tokenization.convert_to_unicode):
        assert convert("é") == convert(b"\xc3\xa9\xff") == "é"
        with pytest.raises(ValueError, match=r"int\b"):
            convert(3)
    assert tokenization.whitespace_tokenize(" a  b\tc\n") == ["a", "b", "c"]
    assert tokenization.whitespace_tokenize(" ") == []
    assert not tokenization.validate_case_matches_checkpoint(True, None)
    kinds = {"whitespace": " \t\n\r\u00a0", "control": "\u0005\u00ad", "punctuation": "-$`.«"}
    for kind, chars in kinds.items():
        is_kind = getattr(tokenization, f"_is_{kind}")
        assert [char for char in "".join(kinds.values()) + "Aé博" if is_kind(char)] == list(chars)


def test_only_masking_needs_mask(write_vocab):
    path = write_vocab([piece for piece in PIECES if piece != "[MASK]"])
    tokenizer = tokenization.FullTokenizer(path, keep_special_tokens=True)
    ids = [8, 5, 6, 11, 9, 10]
    assert tokenizer.encode("UNwant\u00e9d,running") == ids
    layer = bert_tf.BertTokenizer(list(tokenizer.vocab), max_seq_length=8)
    assert layer(["unwanted,running"])["input_ids"].numpy().tolist() == [[2, *ids, 3]]
    bert_config = bert_tf.BertConfig(len(tokenizer.vocab), 8, 1, 1, 8, max_position_embeddings=8)
    config = FillMaskConfig(bert_config, path, max_seq_length=8)
    model = bert_tf.BertPretrainer(bert_config)
    for mask in (
        lambda: bert_tf.FillMask(model, config),
        lambda: dynamic_masking.DynamicMasking(tokenizer.vocab, {"S": 8, "P": 2}, 0.15, seed=1),
    ):
        with pytest.raises(UserError, match=r"^`vocab_file`: .*\[MASK\] among its 13"):
            mask()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Cafe\u0301 noir", {"cafe": "Cafe\u0301", "noir": "noir"}),
        ("a\u200bb\u200d c", {"a": "a", "##b": "b", "c": "c"}),
        ("x\ud55c", {"x": "x", "##\u1112": "\ud55c", "##\u1161": "\ud55c", "##\u11ab": "\ud55c"}),
        ("\ufb01 \u1e9e", {"\ufb01": "\ufb01", "\u00df": "\u1e9e"}),
        ("\u2260\u0338", {"=": "\u2260\u0338"}),
        (b"\xffa \xc3\xa9", {"a": "a", "e": "\u00e9"}),
    ],
)
def test_offsets(write_vocab, text, tokens):
    tokenizer = tokenization.FullTokenizer(
        write_vocab(["[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokens])
    )
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    assert tokenizer.convert_ids_to_tokens(ids) == list(tokens)
    text = tokenization.convert_to_unicode(text)
    spans = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert spans == list(tokens.values())


@pytest.mark.parametrize("lower", [True, False])
def test_normalized_span_is_the_token(script_vocab, rng, lower):
    """It contains the token if one character gives several.

    Sigmas and sorted marks are exempt, because they depend on their neighbours in the text.
    """
    tokenizer = tokenization.FullTokenizer(script_vocab, lower)
    sorted_marks = "".join(map(chr, [*normalization.SORTED_MARKS, *normalization.MUSICAL_NOTES]))
    num_checked = 0
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
            again = normalization.normalize(span, lower).strip().replace("\u03c2", "\u03c3")
            several = any(len(normalization.normalize(char, lower).strip()) > 1 for char in span)
            assert token in again if several else token == again, (text, span)
            num_checked += 1
    assert num_checked > 4000


@pytest.mark.parametrize(
    ("text", "pieces", "spans"),
    [
        ("[MASK] is [SEP].", ["[MASK]", "is", "[SEP]", "."], [(0, 6), (7, 9), (10, 15), (15, 16)]),
        ("is[MASK]is", ["is", "[MASK]", "is"], [(0, 2), (2, 8), (8, 10)]),
        ("ΑΣ[MASK]Α", ["[UNK]", "[MASK]", "[UNK]"], [(0, 2), (2, 8), (8, 9)]),
    ],
)
def test_special_tokens(write_vocab, text, pieces, spans):
    path = write_vocab(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "."])
    tokenizer = tokenization.FullTokenizer(path, keep_special_tokens=True)
    assert tokenizer.tokenize(text) == pieces
    _, starts, ends = tokenizer.encode_with_offsets(text)
    assert list(zip(starts, ends, strict=True)) == spans
    assert "[MASK]" not in tokenization.FullTokenizer(path).tokenize(text)


def test_long_words_are_not_kept_in_memory(tokenizer):
    tracemalloc.start()
    for i in range(4):
        word = f"{i}" + "a" * 50_000
        assert tokenizer.encode(word) == tokenizer.encode_with_offsets(word)[0]
    assert tracemalloc.get_traced_memory()[0] < 100_000
    tracemalloc.stop()
