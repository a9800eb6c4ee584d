"""Text sources: formats, sentence splitting, reading a corpus, errors with file and line."""

import gzip
import json
import re

import numpy as np
import pytest

from bert_tf.data import pretraining
from bert_tf.data.pretraining import corpus
from bert_tf.errors import UserError
from tests.common import write_tfds
from tests.data.pretraining_helpers import read_corpus


def _documents(path, **options):
    source = pretraining.TextFileSource([str(path)], **options)
    documents = [document.lines for document in source.documents()]
    assert source.done == pytest.approx(source.total)
    return documents


@pytest.mark.parametrize("packed", [False, True])
def test_lines_and_json_are_the_same_corpus(tmp_path, tokenizer, packed):
    values = [{"text": "The cat sat. A dog ran.", "id": 1}, {"text": ["On the mat."]}]
    texts = {
        "a.txt": "The cat sat.\nA dog ran.\n\nOn the mat.\n",
        "a.jsonl": "\n".join(map(json.dumps, values)) + "\n",
        "raw.txt": "The cat sat. A dog ran.\n\nOn the mat.\n",
    }
    corpora = []
    for name, text in texts.items():
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        corpora.append(read_corpus([path], tokenizer, split_sentences=name == "raw.txt"))
    for a, b, c in zip(*corpora, strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)
    assert corpora[0].documents.tolist() == [0, 2, 3]


def test_format_and_field(tmp_path):
    (tmp_path / "a.txt").write_text('{"body": "One."}\n\n{"body": "  "}\n{"body": "Two."}\n')
    expected = _documents(tmp_path / "a.txt", format="jsonl", text_field="body")
    assert expected == [["One."], ["Two."]]
    (tmp_path / "a.txt").rename(tmp_path / "a.JSONL")
    assert _documents(tmp_path / "a.JSONL", text_field="body") == expected


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He met Dr. Smith and J. R. Jones. Then he left.",
         ["He met Dr. Smith and J. R. Jones.", "Then he left."]),
        ("It is 3.5 m long, i.e. too long. 7 others are not.",
         ["It is 3.5 m long, i.e. too long.", "7 others are not."]),
        ('"Stop!" he said. (So it was.) "Go."', ['"Stop!" he said.', "(So it was.)", '"Go."']),
        ("J.R.R. Tolkien met Ph.D. Smith of the U.S. Army. E.g. this.",
         ["J.R.R. Tolkien met Ph.D. Smith of the U.S. Army.", "E.g. this."]),
        ("." * 50_000 + " A", ["." * 50_000, "A"]),  # would take minutes in quadratic time
        ("a\x0cb\x85c\u2028d\r\ne", ["a\x0cb\x85c\u2028d", "e"]),
        ("我喜欢北京。你呢？好！", ["我喜欢北京。", "你呢？", "好！"]),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentence_splitting(text, split):
    assert corpus.split_sentences(text) == split


PACKED = gzip.compress(b"".join(b"line %d of many\n" % (i * i) for i in range(5000)))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"txt": 1, "id": 2}\n', ", line 2: .*'txt': 1.*'text'"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": \n', ", line 3: .*JSON"),
        ("a.jsonl", b'{"text": [1]}\n', r", line 1: .*\[1\].*'text'"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "caf\xe9"}\n', ", line 2: .*byte 14 is 0xe9"),
        ("a.txt.gz", PACKED[:-200], ": cannot be read"),
        ("a.txt.gz", PACKED[:20] + b"\0\0\0" + PACKED[23:], ": cannot be read"),
        ("a.txt", None, "cannot be read"),
        ("", None, "cannot be read"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(tmp_path, name, data, message):
    if data:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=re.escape(str(tmp_path / name)) + f".*{message}"):
        _documents(tmp_path / name)


def test_read_corpus(tokenizer, tmp_path, caplog):
    """Blank lines and file ends separate documents; lines without tokens are skipped."""
    texts = (
        b"\n\nThe cat.\n\x01\nDOGS\n \t \n\xe3\x80\x80\na mat", b"the \xfftree\r\n\r\n", b"",
        b"ran\nxyz",
    )  # fmt: skip
    paths = [tmp_path / f"part{number}.txt" for number in range(4)]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    with caplog.at_level("INFO", "bert_tf"):
        corpus = read_corpus(paths, tokenizer)
    pieces = tokenizer.convert_ids_to_tokens(corpus.ids.tolist())
    assert " ".join(pieces) == "the cat . dog ##s a mat the tree ran [UNK]"
    assert corpus.sentences.tolist() == [0, 3, 5, 7, 9, 10, 11]
    assert corpus.documents.tolist() == [0, 2, 3, 4, 6]
    assert corpus.ids.dtype == np.int32
    assert re.search(r"part1\.txt: 1 lines .*line 1", caplog.text)


def test_text_of_tensorflow_datasets(tmp_path, tokenizer):
    tfds = pytest.importorskip("tensorflow_datasets")
    from bert_tf.data.tfds import TfdsTextSource

    features = {"text": tfds.features.Text(), "label": np.int64}
    rows = [("The cat sat. A dog ran.", 0), (" ", 1), ("A mat.", 2)]
    write_tfds(tmp_path / "tfds", "tiny", features, {"train": rows})
    source = TfdsTextSource("tiny", data_dir=str(tmp_path / "tfds"))
    corpus = pretraining.read_corpus(source, tokenizer)
    assert corpus.documents.tolist() == [0, 2, 3]
    assert source.done == 3
    with pytest.raises(UserError, match=r"^`text_field=label`: .* tiny, .*text"):
        TfdsTextSource("tiny", text_field="label", data_dir=str(tmp_path / "tfds"))
    with pytest.raises(UserError, match=r"^`tfds_split=test`: .* tiny, train"):
        TfdsTextSource("tiny", "test", data_dir=str(tmp_path / "tfds"))
