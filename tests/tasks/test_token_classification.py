"""Tags and spans, scores beside conlleval and seqeval, column files, windows of sentences."""

import random
import types

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY

import bert_tf
from bert_tf.tasks import token_classification as tagging
from bert_tf.tasks.token_classification import features, reading, schemes, scoring
from bert_tf.tasks.tsv import BadRows

Span = schemes.Span
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
def test_spans_come_back_from_their_tags(scheme):
    rng = random.Random(0)
    for _ in range(300):
        spans = random_spans(rng, 9)
        tags = schemes.tags_of(spans, 9, scheme)
        assert schemes.spans_of(tags, scheme) == spans, tags
        assert schemes.wrong_tag(tags, scheme) is None
        for other in ("iob1", "iob2", "iobes"):
            assert schemes.converted(tags, scheme, other) == schemes.tags_of(spans, 9, other)


def test_tags_by_hand():
    spans = [Span("PER", 0, 2), Span("PER", 2, 3), Span("LOC", 3, 4)]
    assert schemes.tags_of(spans, 5, "iob1") == ["I-PER", "I-PER", "B-PER", "I-LOC", "O"]
    assert schemes.tags_of(spans, 5, "iob2") == ["B-PER", "I-PER", "B-PER", "B-LOC", "O"]
    assert schemes.tags_of(spans, 5, "iobes") == ["B-PER", "E-PER", "S-PER", "S-LOC", "O"]


def test_a_scheme_is_found_by_its_tags():
    assert schemes.find_scheme([["O", "I-PER"], ["I-PER", "B-PER"]]) == "iob1"
    assert schemes.find_scheme([["O", "B-PER"], ["B-PER", "I-PER"]]) == "iob2"
    assert schemes.find_scheme([["O", "S-PER"], ["B-LOC", "E-LOC"]]) == "iobes"
    assert schemes.find_scheme([["NN", "VB-D", "."]]) == "none"
    # One odd tag among spans makes them no names.
    for odd in ("PER", "I-", "M-PER"):
        assert schemes.find_scheme([["O", "I-PER"], ["I-PER", "B-PER"], [odd]]) == "iob1"
        assert schemes.find_scheme([["O", "B-PER"], ["B-PER", "I-PER"], [odd]]) == "iob2"
        assert schemes.wrong_tag(["O", odd], "iob1") == 1
    for tags in (["O", "U-PER"], ["B-PER", "I-PER", "L-PER"]):
        with pytest.raises(bert_tf.UserError, match=f"BILOU's, by {tags[-1]}; iobes is the same"):
            schemes.find_scheme([tags])


def conlleval(true, found):
    """(precision, recall, F1) by the rules of the official script, word by word, in our words.

    A span is open in either of the two; it is right if it began and ends together with one of the
    same label in the other. Of its rules those for B, I and O are here.
    """

    def split(tag):
        return ("O", "") if tag == "O" else tuple(tag.split("-", 1))

    def ends(before, now):
        (p, a), (q, b) = before, now
        return p in "BI" and (q in "BO" or a != b)

    def starts(before, now):
        (p, a), (q, b) = before, now
        return q == "B" or (q == "I" and (p == "O" or a != b))

    counts = dict.fromkeys(("right", "true", "found"), 0)
    for tags in zip(true, found, strict=True):
        before, both = [("O", "")] * 2, False
        for i in range(len(tags[0]) + 1):
            now = [split(side[i]) if i < len(side) else ("O", "") for side in tags]
            ended = [ends(x, y) for x, y in zip(before, now, strict=True)]
            if both and (all(ended) or any(ended) or now[0][1] != now[1][1]):
                counts["right"] += all(ended)
                both = False
            started = [starts(x, y) for x, y in zip(before, now, strict=True)]
            both = both or (all(started) and now[0][1] == now[1][1])
            counts["true"] += started[0]
            counts["found"] += started[1]
            before = now
    precision, recall = (counts["right"] / max(counts[x], 1) for x in ("found", "true"))
    return precision, recall, 2 * counts["right"] / max(counts["found"] + counts["true"], 1)


def random_tags(rng, tags):
    return [[rng.choice(tags) for _ in range(rng.randint(1, 12))] for _ in range(200)]


TAGS = ["O", "O", "O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("X", "Y-Z"))]


def test_scores_are_those_of_conlleval_whatever_a_model_says():
    of_iob = [tag for tag in TAGS if tag[0] in "BIO"]
    for seed in range(5):
        rng = random.Random(seed)
        true = random_tags(rng, of_iob)
        found = [[rng.choice([t, t, rng.choice(of_iob)]) for t in sentence] for sentence in true]
        ours = scoring.count(true, found).figures()
        assert ours == pytest.approx(conlleval(true, found), abs=1e-12)
        assert 0.1 < ours[2] < 0.9


def test_scores_are_those_of_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = random.Random(0)
    true = random_tags(rng, TAGS)
    found = [[rng.choice([t, t, rng.choice(TAGS)]) for t in sentence] for sentence in true]
    counts = scoring.count(true, found)
    theirs = (seqeval.precision_score, seqeval.recall_score, seqeval.f1_score)
    assert counts.figures() == pytest.approx([score(true, found) for score in theirs])
    by_label = seqeval.classification_report(true, found, output_dict=True)
    for label in ("X", "Y-Z"):
        assert counts.figures(label) == pytest.approx(list(by_label[label].values())[:3])
    assert scoring.accuracy(true, found) == pytest.approx(seqeval.accuracy_score(true, found))


def test_accuracy_is_that_of_the_columns_that_are_written():
    """In IOB1 an I after nothing is right where IOB2 has a B."""
    task = tagging.TaggingTask(TINY, features.Tags(("O", "B-X", "I-X"), "iob2", "iob1"), 4)
    starts = np.array([[0, features.SENTENCE, features.WORD, 0]])
    found = task.metrics({
        "found": np.array([[0, 2, 2, 0]]),
        "tag_ids": np.array([[0, 1, 2, 0]]),
        "word_starts": starts,
        "loss": np.zeros(1),
    })  # fmt: skip
    assert found["eval_accuracy"] == found["eval_f1"] == 1


def test_no_span_is_no_crash():
    assert scoring.count([["O"]], [["O"]]).figures() == (0, 0, 0)
    assert "all" in scoring.report([["O"]], [["O"]], "iob2")


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
    first, second, third = reading.ColumnFiles(tmp_path).read("train")
    assert first.words == ("a", "bc") and first.tags == ("I-PER", "I-PER")
    assert first.place(1) == f"{path}, line 2" and first.opening == ()
    assert second.words == ("d\u00a0e",) and second.opening == ("-DOCSTART- -X- O",)
    assert third.tags == ("B-PER",) and len(third.opening) == 2
    found = reading.ColumnFiles(None, {"train": str(path)}, -3, 1).read("train")
    assert found[0].tags == ("N", "N")
    # Every line comes back.
    tagging.write_columns(tmp_path / "found.txt", found, [["O"] * len(s.words) for s in found])
    lines = COLUMNS.lstrip("\ufeff").replace("\r", "").replace("\t", " ").split("\n")
    written = (tmp_path / "found.txt").read_text().split("\n")
    assert list(filter(None, written)) == [f"{line} O" for line in lines if line]
    assert reading.ColumnFiles(None, {"test": str(path)}).read("test")[0].tags is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb c O\n", "line 2: 3 columns, the first line has 2"),
        ("a O\n\n\nb\n", "line 4: 1 columns, the first line has 2"),
        ("a\n", "line 1: a word and a tag were expected, 'a' has 1"),
        ("a\0 O\n", "line 1: there is a NUL in it"),
        ("\n\n", "there is not a single sentence in it"),
        ("a O\ncaf\xe9 O\n", r"train.txt, line 2: not UTF-8 \(byte 4 is 0xe9\)"),
    ],
)
def test_lines_that_cannot_be_used(tmp_path, text, message):
    (tmp_path / "train.txt").write_text(text, "latin-1")
    with pytest.raises(bert_tf.UserError, match=message):
        reading.ColumnFiles(tmp_path).read("train")


def test_bad_sentences_are_counted(tmp_path):
    (tmp_path / "train.txt").write_text("a O\n\nb\n\nc O\nd\n\ne I-X\n")
    bad = BadRows(skip=True)
    found = reading.ColumnFiles(tmp_path).read("train", bad)
    assert [s.words for s in found] == [("a",), ("e",)]
    assert bad.count == 2 and "line 3" in bad.first


def test_tags_that_cannot_be(tmp_path):
    (tmp_path / "train.txt").write_text("a O\nb I-X\n\nc B-X\n")
    sentences = reading.ColumnFiles(tmp_path).read("train")
    tags = features.find_tags(sentences, "iob2")
    with pytest.raises(bert_tf.UserError, match=r"line 2: I-X cannot stand there in iob2"):
        tagging.usable(sentences, tags, BadRows())
    (tmp_path / "train.txt").write_text("-DOCSTART- O\n\na O\nb PER\n\nc B-X\nd I-X\n")
    sentences = reading.ColumnFiles(tmp_path).read("train")
    odd = features.find_tags(sentences)
    assert odd == (("O", "B-X", "I-X"), "iob2", "iob2")
    with pytest.raises(bert_tf.UserError, match=r"line 4: PER cannot stand there in iob2"):
        tagging.usable(sentences, odd, BadRows())
    # The document begins all the same.
    (kept,) = tagging.usable(sentences, odd, BadRows(skip=True))
    assert kept.words == ("c", "d") and kept.opening == ("-DOCSTART- O",)
    sentences = [reading.Sentence("x", ("a", "b"), ("O", "I-NEW"), lines=(1, 2))]
    with pytest.raises(bert_tf.UserError, match=r"x, line 2: .* not know the tag I-NEW, only O, "):
        tagging.usable(sentences, tags._replace(data_scheme="iob1"), BadRows())


def test_a_model_learns_spans_or_names():
    spans = [reading.Sentence("x", ("a",) * 3, ("I-B", "B-B", "I-A"))]
    assert features.find_tags(spans) == (("O", "B-A", "I-A", "B-B", "I-B"), "iob2", "iob1")
    names = [reading.Sentence("x", ("a",) * 2, ("VB", "NN"))]
    assert features.find_tags(names) == (("NN", "VB"), "none", "none")
    with pytest.raises(bert_tf.UserError, match="--learn_scheme=iob2 does not go with"):
        features.find_tags(names, None, "iob2")


@pytest.fixture
def data_set(monkeypatch):
    """Makes a data set of tensorflow-datasets of rows (words, tag ids)."""
    of = pytest.importorskip("tensorflow_datasets").features
    features = of.FeaturesDict({
        "id": of.Text(),
        "tokens": of.Sequence(of.Text()),
        "ner": of.Sequence(of.ClassLabel(names=["O", "I-X"])),
        "pair": of.Sequence({"a": of.Text()}),
    })  # fmt: skip

    def make(rows=(), **options):
        def as_dataset(**_):
            kinds = {"tokens": tf.string, "ner": tf.int64}
            return tf.data.Dataset.from_generator(
                lambda: (dict(zip(kinds, row, strict=True)) for row in rows),
                output_signature={x: tf.TensorSpec([None], kind) for x, kind in kinds.items()},
            )

        info = types.SimpleNamespace(features=features, splits=("train", "test"))
        builder = types.SimpleNamespace(info=info, as_dataset=as_dataset)
        monkeypatch.setattr(reading, "load_builder", lambda *_: builder)
        return reading.TfdsSentences("letters", **options)

    return make


def test_a_data_set_s_sentences_fit_into_columns(data_set):
    good = ["a", "d\u00a0e"], [0, 1]
    (found,) = data_set([good]).read("train")
    assert found.words == ("a", "d\u00a0e") and found.tags == ("O", "I-X")
    for words, tags, message in (
        ([], [], "there is no word in it"),
        (["a", ""], [0, 0], "'' is no word"),
        (["a b"], [0], "'a b' is no word"),
        (["a\n"], [0], r"'a\\n' is no word"),
        (["a\0"], [0], r"'a\\x00' is no word"),
        (["a", b"caf\xe9"], [0, 0], "not UTF-8"),
        (["a", "b"], [0], "2 words and 1 tags"),
        (["a", "b"], [0, -1], "there is a word without a tag"),
    ):
        source = data_set([good, (words, tags)])
        with pytest.raises(bert_tf.UserError, match=f"letters, train, example 1: {message}"):
            source.read("train")
        assert len(source.read("train", BadRows(skip=True))) == 1
    for options in ({"words": "id"}, {"words": "pair"}, {"words": "ner"}, {"tags": "id"}):
        (flag, feature), *_ = options.items()
        with pytest.raises(bert_tf.UserError, match=f"--{flag[:-1]}_column: {feature} of letters"):
            data_set(**options)


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(LETTERS) + "\n")
    return bert_tf.FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)


def sentence(text, tags, opening=()):
    return reading.Sentence("x", tuple(text.split()), tuple(tags.split()), opening=opening)


NAMES = features.Tags(("O", "B-X", "I-X"), "iob2", "iob1")


def test_features_by_hand(tokenizer):
    # abc is three pieces, a zero-width space is none.
    words = reading.Sentence("x", ("d", "abc", "\u200b"), ("I-X", "I-X", "O"))
    (row,) = features.features([words], NAMES, tokenizer, features.WindowConfig(8))
    pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert pieces == ["[CLS]", "d", "a", "##b", "##c", "[UNK]", "[SEP]", "[PAD]"]
    assert row["input_mask"] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert row["tag_ids"] == [0, 1, 2, 0, 0, 0, 0, 0]
    assert row["word_starts"] == [0, 2, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_tagged_once_and_in_order(tokenizer, document_context):
    rng = random.Random(0)
    sentences, starts = [], (0, 3, 4, 20)
    for i in range(30):
        length = rng.choice([1, 2, 5, 30])
        text = " ".join(rng.choice(["a", "abc", "d", "dbb"]) for _ in range(length))
        tags = " ".join(rng.choice(["O", "I-X"]) for _ in range(length))
        sentences.append(sentence(text, tags, ("-DOCSTART-",) if i in starts else ()))
    cut = features.WindowConfig(12, None, document_context)
    rows = list(features.features(sentences, NAMES, tokenizer, cut))
    found, letters = [], []
    for row in rows:
        for index, tag, start in zip(
            row["input_ids"], row["tag_ids"], row["word_starts"], strict=True
        ):
            if start == features.SENTENCE:
                found.append([])
                letters.append([])
            if start:
                found[-1].append(NAMES.names[tag])
                letters[-1].append(tokenizer.inv_vocab[index])
    assert found == [schemes.converted(s.tags, "iob1", "iob2") for s in sentences]
    assert letters == [[word[0] for word in s.words] for s in sentences]
    if document_context:
        # In the middle of a document a word has others on both sides.
        places = [i for row in rows for i, x in enumerate(row["word_starts"]) if x]
        assert sum(3 <= i <= 9 for i in places) > len(places) / 2


def test_another_scheme_to_learn_makes_other_features(tokenizer, tmp_path):
    """The tags of iob1 and iob2 have the same names."""

    def look(tags):
        made = [sentence("a d", "I-X I-X")], tags, tokenizer, features.WindowConfig(8)
        return features.TagFeatures(f"{tmp_path}/x.tf_record", *made)

    look(NAMES).write()
    assert look(NAMES).stale_reason is None
    assert "learn_scheme changed" in look(NAMES._replace(scheme="iob1")).stale_reason
    assert "tag_scheme changed" in look(NAMES._replace(data_scheme="iob2")).stale_reason
