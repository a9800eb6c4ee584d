"""Tagging schemes, scores compared with conlleval, column files, features, words of texts."""

import functools
import random
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.columns import RowErrors
from bert_tf.serving.prepared_model import PreparedModel
from bert_tf.tasks.token_classification import examples, objective, schemes, scoring, served
from bert_tf.tasks.token_classification.options import (
    Tags,
    TokenClassificationConfig,
    TokenClassificationData,
)
from bert_tf.tokenization.normalization import IDEOGRAPHS
from tests.common import TINY, tiny, write_tfds, write_vocab
from tests.tasks.task_helpers import first_batch

Span = schemes.Span
NAMES = Tags(("O", "B-X", "I-X"), "iob2", "iob1")
LETTERS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##b", "##c"]


def random_spans(rng, length):
    spans, at = [], 0
    while at < length:
        end = min(length, at + rng.randint(1, 3))
        if rng.random() < 0.6:
            spans.append(Span(rng.choice(["PER", "LOC"]), at, end))
        at = end
    return spans


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "iobes"])
def test_spans_and_tags_round_trip(scheme):
    rng = random.Random(0)
    for spans in (random_spans(rng, 9) for _ in range(300)):
        tags = schemes.tags_from_spans(spans, 9, scheme)
        assert schemes.spans_from_tags(tags, scheme) == spans, tags
        for other in ("iob1", "iob2", "iobes"):
            expected = schemes.tags_from_spans(spans, 9, other)
            assert schemes.convert_tags(tags, scheme, other) == expected


def test_tags_of_adjacent_spans():
    spans = [Span("PER", 0, 2), Span("PER", 2, 3), Span("LOC", 3, 4)]
    assert schemes.tags_from_spans(spans, 5, "iob1") == ["I-PER", "I-PER", "B-PER", "I-LOC", "O"]
    assert schemes.tags_from_spans(spans, 5, "iobes") == ["B-PER", "E-PER", "S-PER", "S-LOC", "O"]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("iob2", "O B-PER I-PER"),
        ("iob2", "O"),
        ("iob2", "O B-PER PER"),
        ("iobes", "O I-PER B-PER E-LOC"),
        ("iobes", "O U-PER"),
        ("none", "NN VB-D ."),
        ("io", "O PER I_am"),
        ("io", "O E-mail"),
    ],
)
def test_infer_scheme(scheme, tags):
    assert schemes.infer_scheme(tags.split()) == scheme


# Tags of the data, predicted tags, and the numbers of right, true and found spans of the official
# conlleval.
CONLLEVAL = [
    ("B-X I-X O", "B-X I-X O", (1, 1, 1)),
    ("B-X I-X", "B-X B-X", (0, 1, 2)),
    ("B-X B-X", "B-X I-X", (0, 2, 1)),
    ("I-X I-X O I-X", "B-X I-X O B-X", (2, 2, 2)),
    ("I-X I-Y", "B-X B-Y", (2, 2, 2)),
    ("B-X I-X", "B-X I-Y", (0, 1, 2)),
    ("B-X I-X", "B-Y I-Y", (0, 1, 1)),
    ("O B-X I-X", "I-X I-X I-X", (0, 1, 1)),
    ("O B-Y-Z", "O I-Y-Z", (1, 1, 1)),
    ("O O", "O I-X", (0, 0, 1)),
]


def test_scores_are_those_of_conlleval_for_any_tags():
    for true, found, (correct, num_true, num_found) in CONLLEVAL:
        figures = scoring.SpanCounts([true.split()], [found.split()]).precision_recall_f1()
        precision, recall = correct / max(num_found, 1), correct / max(num_true, 1)
        assert figures == (precision, recall, 2 * correct / (num_found + num_true)), (true, found)


def test_accuracy_is_that_of_the_written_columns():
    """An I after O in iob1 equals a B in iob2."""
    config = TokenClassificationConfig(TINY, "", max_seq_length=4, tags=NAMES)
    found = objective.TokenClassificationObjective(None, config).metrics({
        "predicted": np.array([[0, 2, 2, 0]]), "tag_ids": np.array([[0, 1, 2, 0]]),
        "word_starts": np.array([[0, 2, 1, 0]]), "loss": np.zeros(1),
    })  # fmt: skip
    assert found["eval_accuracy"] == found["eval_f1"] == 1


COLUMNS = """\ufeffa N I-PER\r
bc\tN I-PER\r
\r
-DOCSTART- -X- O\r
\r
d\u00a0e V O\r
-DOCSTART- -X- O\r
-DOCSTART- -Y- O\r
\r
f N B-PER
-DOCSTART- -Z- O"""


def test_column_files(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(COLUMNS.encode())
    first, second, third = examples.ColumnFiles(tmp_path).read("train")
    assert first.words == ("a", "bc") and first.tags == ("I-PER", "I-PER")
    assert first.location(1) == f"{path}, line 2" and first.leading_lines == ()
    assert second.words == ("d\u00a0e",) and second.leading_lines == ("-DOCSTART- -X- O",)
    assert third.tags == ("B-PER",) and len(third.leading_lines) == 2
    found = examples.ColumnFiles(None, {"train": str(path)}, -3, 1).read("train")
    assert found[0].tags == ("N", "N")
    # The output keeps all lines of the input.
    examples.write_columns(tmp_path / "found.txt", found, [["O"] * len(s.words) for s in found])
    lines = COLUMNS.lstrip("\ufeff").replace("\r", "").replace("\t", " ").split("\n")
    written = (tmp_path / "found.txt").read_text().split("\n")
    assert list(filter(None, written)) == [f"{line} O" for line in lines if line]
    assert examples.ColumnFiles(None, {"test": str(path)}).read("test")[0].tags is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a O\nb c O\n", "line 2: .* 3 .* 2"),
        ("a O\n\n\nb\n", "line 4: .* 1 .* 2"),
        ("a\n", "line 1: .*'a'"),
        ("a\0 O\n", "line 1: .* NUL"),
        ("\n\n", ""),
        ("a O\ncaf\xe9 O\n", "line 2: .*byte 4"),
        ('{"tokens": ["a"], "ner_tags": ["O"]}\n', "json lines"),
    ],
)
def test_invalid_lines(tmp_path, text, where):
    (tmp_path / "train.txt").write_text(text, "latin-1")
    with pytest.raises(bert_tf.UserError, match=rf"train\.txt.*{where}"):
        examples.ColumnFiles(tmp_path).read("train")


def test_invalid_sentences_are_counted(tmp_path):
    (tmp_path / "train.txt").write_text("a O\n\nb\n\nc O\nd\n\ne I-X\n")
    bad = RowErrors(skip=True)
    found = examples.ColumnFiles(tmp_path).read("train", bad)
    assert [s.words for s in found] == [("a",), ("e",)]
    assert bad.count == 2 and "line 3" in bad.first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# id x a=b\na _ _ B-X\n\n# id\nb _ _ O\n", "ab"),
        ("# O\na O\n\n#b O\n", ["#", "a", "#b"]),
        ("a O\rb B-X\r\rc O", "abc"),
    ],
)
def test_comments_and_line_ends(tmp_path, text, words):
    (tmp_path / "train.txt").write_bytes(text.encode())
    assert [x for s in examples.ColumnFiles(tmp_path).read("train") for x in s.words] == [*words]


def test_invalid_tags(tmp_path):
    (tmp_path / "train.txt").write_text("-DOCSTART- O\n\na O\nb PER\n\nc B-X\nd I-X\n")
    sentences = examples.ColumnFiles(tmp_path).read("train")
    tags = examples.infer_tags(sentences)
    assert tags == (("O", "B-X", "I-X"), "iob2", "iob2")
    with pytest.raises(
        bert_tf.UserError, match=r"train\.txt, line 4: .* PER, .*`learn_scheme=none`"
    ):
        examples.valid_sentences(sentences, tags, RowErrors())
    assert examples.infer_tags(sentences, "none").names == ("B-X", "I-X", "O", "PER")
    # The next sentence starts the document.
    (kept,) = examples.valid_sentences(sentences, tags, RowErrors(skip=True))
    assert kept.words == ("c", "d") and kept.leading_lines == ("-DOCSTART- O",)
    with pytest.raises(bert_tf.UserError, match="I-N, B-N in the scheme iob2, expected one of O, "):
        tags.convert(sentence(["a"], ["I-N"]))


@pytest.mark.parametrize("word", ["", "a b", "a\n"])
def test_words_that_columns_cannot_hold(tmp_path, word):
    with pytest.raises(bert_tf.UserError, match=f"x: .*{word!r}".replace("\\", ".")):
        examples.write_columns(tmp_path / "found.txt", [examples.Sentence("x", (word,))], [["O"]])


@pytest.mark.parametrize(
    ("given", "scheme", "expected", "converted"),
    [
        ("I-B B-B I-A", None, (("O", "B-A", "I-A", "B-B", "I-B"), "iob2", "iob2"), "B-B B-B B-A"),
        ("VB NN", None, (("NN", "VB"), "none", "none"), "VB NN"),
        ("VB NN", "iob2", (("O", "B-NN", "I-NN", "B-VB", "I-VB"), "iob2", "io"), "B-VB B-NN"),
        ("O X X", None, (("O", "B-X", "I-X"), "iob2", "io"), "O B-X I-X"),
        ("O X Y", "none", (("O", "X", "Y"), "none", "none"), "O X Y"),
        ("I-X E-X E-X", None, (("O", "B-X", "I-X"), "iob2", "iobes"), "B-X I-X B-X"),
    ],
)
def test_infer_tags(given, scheme, expected, converted, caplog):
    sentences = [sentence("abc"[: len(given.split())], given.split())]
    tags = examples.infer_tags(sentences, scheme)
    assert tags == expected and tags.convert(sentences[0]) == converted.split()
    assert tags.of_data(sentences) == tags
    assert ("same tag are one entity" in caplog.text) == ("O" not in given and "io" in tags)


def test_iob1_is_kept_on_request(caplog):
    sentences = [sentence("ab", ["O", "I-X"])]
    for scheme in ("iob2", "iob1"):
        options = TokenClassificationData(output_scheme=scheme)
        tags = examples.infer_run_tags(options, None, sentences)
        assert tags.data_scheme == scheme and tags.of_data(sentences) == tags
    assert caplog.text.count("`output_scheme=iob1` keeps iob1") == 1


def test_tfds_sentences(tmp_path):
    of = pytest.importorskip("tensorflow_datasets").features
    features = {
        "tokens": of.Sequence(of.Text()),
        "ner": of.Sequence(of.ClassLabel(names=["O", "I-X"])),
        "pair": of.Sequence({"a": of.Text()}),
        "id": of.Text(),
    }
    good = ["a", "d\u00a0e"], [0, 1], [], ""
    bad = (
        (["a\0"], [0]), (["a", b"caf\xe9"], [0, 0]), (["a", "b"], [0]),
        (["a", "b"], [0, -1]),
    )  # fmt: skip
    splits = {f"bad{i}": [good, (*row, [], "")] for i, row in enumerate(bad)}
    write_tfds(tmp_path, "letters", features, {"train": [good], **splits})

    def make(split="train", **options):
        return examples.TfdsSentences("letters", str(tmp_path), {"train": split}, **options)

    (found,) = make().read("train")
    assert found.words == ("a", "d\u00a0e") and found.tags == ("O", "I-X")
    examples.write_columns(tmp_path / "found.txt", [found], [["O", "O"]])
    assert (tmp_path / "found.txt").read_text() == "a O\nd\u00a0e O\n\n"
    for split in splits:
        with pytest.raises(bert_tf.UserError, match=f"letters, {split}, example 1: "):
            make(split).read("train")
        assert len(make(split).read("train", RowErrors(skip=True))) == 1
    for options, named in (
        ({"words": "id"}, "`word_column`"), ({"words": "x"}, "`word_column`"),
        ({"words": "pair"}, "expected words"), ({"tags": "id"}, "expected one for each of 2 words"),
    ):  # fmt: skip
        with pytest.raises(bert_tf.UserError, match=named):
            make(**options).read("train")


@pytest.fixture
def tokenizer(tmp_path):
    return bert_tf.FullTokenizer(str(write_vocab(tmp_path, LETTERS)), do_lower_case=False)


def sentence(words, tags, leading_lines=()):
    return examples.Sentence("x", tuple(words), tuple(tags), leading_lines=leading_lines)


def rows_of(sentences, tokenizer, **options):
    """Return the features of each window, a list of dicts of lists."""
    config = TokenClassificationConfig(TINY, "", tags=NAMES, **options)
    batch = first_batch(objective.make_features(sentences, tokenizer, config))
    rows = zip(*(x.numpy().tolist() for x in batch.values()), strict=True)
    return [dict(zip(batch, row, strict=True)) for row in rows]


def test_features_of_a_sentence(tokenizer):
    # "abc" has three pieces; the tokenizer removes the zero-width space.
    words = sentence(("d", "abc", "\u200b"), ("I-X", "I-X", "O"))
    (row,) = rows_of([words], tokenizer, max_seq_length=8)
    pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert pieces == ["[CLS]", "d", "a", "##b", "##c", "[UNK]", "[SEP]", "[PAD]"]
    assert row["input_mask"] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert row["tag_ids"] == [0, 1, 2, 0, 0, 0, 0, 0]
    assert row["word_starts"] == [0, 2, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_tagged_once_in_order(tokenizer, document_context):
    rng = random.Random(0)
    sentences, starts = [], (0, 3, 4, 20)
    for i in range(30):
        length = rng.choice([1, 2, 5, 30])
        words, tags = (rng.choices(x, k=length) for x in (["a", "abc", "d", "dbb"], ["O", "I-X"]))
        sentences.append(sentence(words, tags, ("-DOCSTART-",) if i in starts else ()))
    rows = rows_of(sentences, tokenizer, max_seq_length=12, document_context=document_context)
    found, letters = [], []
    for row in rows:
        for index, tag, start in zip(
            row["input_ids"], row["tag_ids"], row["word_starts"], strict=True
        ):
            if start == objective.SENTENCE_START:
                found.append([])
                letters.append([])
            if start:
                found[-1].append(NAMES.names[tag])
                letters[-1].append(tokenizer.inv_vocab[index])
    assert found == [schemes.convert_tags(s.tags, "iob1", "iob2") for s in sentences]
    assert letters == [[word[0] for word in s.words] for s in sentences]
    if document_context:
        # Most words have context on both sides.
        places = [i for row in rows for i, x in enumerate(row["word_starts"]) if x]
        assert sum(3 <= i <= 9 for i in places) > len(places) / 2


@pytest.mark.parametrize(
    ("step", "do_lower_case"),
    [(64, True), *(pytest.param(1, x, marks=pytest.mark.slow) for x in (False, True))],
)
def test_words_of_texts_for_every_code_point(step, do_lower_case, tmp_path):
    """Texts are split into the same words in Python, in the SavedModel and in training data.

    All tags of this model are entities, so every word is found. The default suite omits most
    ideographs, Hangul and unassigned code points.
    """
    # Pieces of Hangul syllables and marks; all other characters are unknown.
    more = ["\u1100", "##\u1161", "##\u0bc6", "##\u0301", "##\u1100", "'", "s"]
    vocab_file = write_vocab(tmp_path, [*LETTERS, *more])
    config = TokenClassificationConfig(
        tiny(max_position_embeddings=8192), str(vocab_file), 8192, do_lower_case,
        tags=Tags(("X",), "none", "none"),
    )  # fmt: skip

    def call(inputs, of_windows):
        return {"logits": tf.zeros([*tf.unstack(tf.shape(inputs["input_ids"])), 1])}

    tokenizer = bert_tf.GraphTokenizer(str(vocab_file), do_lower_case)
    prepared = PreparedModel(None, call, lambda length: length, None, lambda _: tokenizer)
    module, signature = tf.Module(), [tf.TensorSpec((None,), tf.string)]
    find_entities = functools.partial(served.find_entities, prepared, config)
    module.find = tf.function(find_entities, signature, autograph=False)
    module.tokenizer = tokenizer
    tf.saved_model.save(module, str(tmp_path / "saved"))
    exported = tf.saved_model.load(str(tmp_path / "saved"))
    tokenize = bert_tf.tokenization.BasicTokenizer(do_lower_case).tokenize

    # The word starts in "a?b a? ?b ", by the number of words that the tokenizer finds in "a?b":
    # 1 for a letter, 2 for white space, 3 for punctuation or an ideograph.
    word_starts = {1: (0, 4, 7), 2: (0, 2, 4, 8), 3: (0, 4, 5, 7, 8)}
    batch, expected = [], []
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    codes = [x for x in codes if unicodedata.category(chr(x)) not in ("Lo", "Cn", "Co")
             or x < 0x3000 or x % step == 0]  # fmt: skip
    for first in range(0, len(codes), 2048):
        text, starts = "", []
        for char in map(chr, codes[first : first + 2048]):
            words = tokenize(f"a{char}b")
            if any(low <= ord(char) <= high for low, high in IDEOGRAPHS):
                relative = (0, 1, 2, 4, 5, 7, 8)
            elif words == ["ab"] and not tokenize(char):
                relative = (0, 4, 8)  # removed
            else:
                relative = word_starts[len(words)]
            starts += [len(text) + start for start in relative]
            text += f"a{char}b a{char} {char}b "
        batch.append(text)
        expected.append(starts)
    for first in range(0, len(batch), 64):
        for find in (module.find, exported.find):
            rows = find(tf.constant(batch[first : first + 64]))["start"].numpy()
            for row, starts in zip(rows, expected[first : first + 64], strict=True):
                np.testing.assert_array_equal(row[row >= 0], starts)
