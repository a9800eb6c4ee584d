"""Text of many kinds to documents and sentences; what is wrong is said with file and line."""

import contextlib
import gzip
import io
import json

import numpy as np
import pytest
from test_pretraining_data import PIECES

from bert_tf import tokenization
from bert_tf.data import pretraining
from bert_tf.data.pretraining import sources
from bert_tf.errors import UserError


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES))
    return tokenization.FullTokenizer(str(path))


def documents(path, **options):
    source = pretraining.FileSource([str(path)], **options)
    found = [document.lines for document in source.documents()]
    assert source.done == pytest.approx(source.total)
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_lines_and_json_are_the_same_corpus(tmp_path, tokenizer, packed):
    def write(name, text):
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return str(path)

    lines = write("a.txt", "The cat sat.\nA dog ran.\n\nOn the mat.\n")
    values = [{"text": "The cat sat. A dog ran.", "id": 1}, {"text": ["On the mat."]}]
    objects = write("a.jsonl", "\n".join(map(json.dumps, values)) + "\n")
    corpora = [
        pretraining.read_corpus(pretraining.FileSource([path]), tokenizer)
        for path in (lines, objects)
    ]
    for a, b in zip(*corpora, strict=True):
        assert np.array_equal(a, b)
    assert corpora[0].documents.tolist() == [0, 2, 3]


def test_running_text_is_split_on_request(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text("The cat sat. A dog ran.\n")
    counts = [
        len(pretraining.read_corpus(source, tokenizer).sentences) - 1
        for source in (
            pretraining.FileSource([str(tmp_path / "a.txt")]),
            pretraining.FileSource([str(tmp_path / "a.txt")], split_sentences=True),
        )
    ]
    assert counts == [1, 2]


def test_other_field_and_format_by_flag(tmp_path):
    (tmp_path / "a.txt").write_text('{"body": "One."}\n\n{"body": "  "}\n{"body": "Two."}\n')
    found = documents(tmp_path / "a.txt", format="jsonl", text_field="body")
    assert found == [["One."], ["Two."]]
    (tmp_path / "a.txt").rename(tmp_path / "a.JSONL")
    assert documents(tmp_path / "a.JSONL", text_field="body") == found
    with pytest.raises(UserError, match="--input_format: 'json' is not one of auto, text, jsonl"):
        documents(tmp_path / "a.JSONL", format="json")


def test_a_field_of_files_that_have_none(tmp_path, heard):
    (tmp_path / "a.txt").write_text('{"body": "One."}\n')
    run = heard("create_pretraining_data")
    with pytest.raises(UserError, match="--text_field: no file is read as JSON lines, by its name"):
        run("create_pretraining_data", f"--input_file={tmp_path}/a.txt", "--text_field=body",
            f"--output_file={tmp_path}/out", f"--vocab_file={tmp_path}/vocab.txt")  # fmt: skip


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
        ("." * 50_000 + " A", ["." * 50_000, "A"]),  # minutes, if tried from each of them
        ("a\x0cb\x85c\u2028d\r\ne", ["a\x0cb\x85c\u2028d", "e"]),
        ("a line\nand another", ["a line", "and another"]),
        ("Wait... what? yes.", ["Wait... what? yes."]),
        ("我喜欢北京。你呢？好！", ["我喜欢北京。", "你呢？", "好！"]),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_the_rule_of_sentences(text, split):
    assert sources.split_sentences(text) == split


def gzipped(text, cut):
    data = gzip.compress(text)
    return data[: len(data) - cut] if cut else data[:20] + b"\0\0\0" + data[23:]


LONG = b"".join(b"line %d of many\n" % (i * i) for i in range(5000))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"txt": 1, "id": 2}\n',
         r"a.jsonl, line 2: there is no 'text', only txt, id"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": \n', r"line 3: one JSON object was expected"),
        ("a.jsonl", b'{"text": ' + b"1" * 5000 + b"}\n",
         r"line 1: one JSON object was expected \(Exceeds the limit"),
        ("a.jsonl", b"[1]\n", r"line 1: one JSON object was expected, not \[1\]"),
        ("a.jsonl", b'{"text": [1]}\n', r"line 1: 'text' must be a text or a list of texts"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "caf\xe9"}\n',
         r"line 2: not UTF-8 \(byte 14 is 0xe9\)"),
        ("a.txt.gz", gzipped(LONG, 200), r"a.txt.gz, line \d+: cannot be unpacked"),
        ("a.txt.gz", gzipped(LONG, 0), r"a.txt.gz, line \d+: cannot be unpacked"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        documents(tmp_path / name)


def test_text_of_tensorflow_datasets(tmp_path, tokenizer):
    tfds = pytest.importorskip("tensorflow_datasets")
    from bert_tf.data.tfds_builder import TfdsTextSource

    class Tiny(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = tmp_path

        def _info(self):
            features = {"text": tfds.features.Text(), "label": tfds.features.Scalar(np.int64)}
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for number, text in enumerate(["The cat sat. A dog ran.", " ", "A mat."]):
                yield number, {"text": text, "label": number}

    with contextlib.redirect_stderr(io.StringIO()):
        Tiny(data_dir=str(tmp_path / "tfds")).download_and_prepare()
    source = TfdsTextSource("tiny", data_dir=str(tmp_path / "tfds"))
    corpus = pretraining.read_corpus(source, tokenizer)
    assert corpus.documents.tolist() == [0, 2, 3]
    assert source.done == 3
    with pytest.raises(UserError, match="--text_field: tiny has no text 'label'"):
        TfdsTextSource("tiny", text_field="label", data_dir=str(tmp_path / "tfds"))
    with pytest.raises(UserError, match="--tfds_split: tiny has no split test, only train"):
        TfdsTextSource("tiny", "test", data_dir=str(tmp_path / "tfds"))
