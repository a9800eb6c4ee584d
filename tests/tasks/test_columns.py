"""Columns of texts, labels and ids in custom files with and without a header."""

import pytest

from bert_tf.data.columns import Layout
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.reading import FileSource, read_examples
from tests.common import read_data, write_files


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a custom file: (text_a, text_b, label, id) of each row."""

    def read(data, split="train", name="data.tsv", **layout):
        path = tmp_path / name
        path.write_bytes(data.encode())
        examples = read_examples(custom_dataset(layout=Layout(**layout)), None, split, str(path))
        return [(x.text_a, x.text_b, x.label, x.id) for x in examples]

    return read


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ("good soup\tyes\nbad\tno\n", [("good soup", None, "yes"), ("bad", None, "no")]),
        ("a\tb\tyes\n", [("a", "b", "yes")]),
        ("label\ttext\nyes\tgood\n", [("good", None, "yes")]),
        ("id\ttext_a\ttext_b\tlabel\n1\ta\tb\tx\r\n", [("a", "b", "x")]),
        ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tx\n", [("a", "b", "x")]),
        ("\ufefftext\tlabel\ngood\tyes\n", [("good", None, "yes")]),
        ('"quoted\tyes\n\n', [('"quoted', None, "yes")]),
    ],
)
def test_columns_that_are_not_named(read, text, examples):
    assert [x[:3] for x in read(text)] == examples


def test_columns_by_name_and_number(read):
    text = "Nr,Title,Body,Stars\nx7,good,soup,yes\nx8,bad,soup,no\n"
    examples = read(text, name="data.csv", text=("title", "Body"), label=("Stars",), id="Nr")
    assert examples == [("good", "soup", "yes", "x7"), ("bad", "soup", "no", "x8")]
    examples = read(text, name="data.csv", text=("2",), label=("3",), header="yes")
    assert examples == [("soup", None, "yes", "0"), ("soup", None, "no", "1")]
    examples = read("x7\tgood\tyes\n", text=("1",), label=("2",), id="0")
    assert examples == [("good", None, "yes", "x7")]
    # A flag declares that the first line is an example.
    assert read("text\tlabel\n", header="no") == [("text", None, "label", "0")]
    # A column may have the name 1.
    assert read("1\ttext\tlabel\na\tb\tc\n", text=("1",)) == [("a", None, "c", "0")]


@pytest.mark.parametrize("text", ["text\ngood\n", "good\n", "good\tyes\n", "text\tlabel\ngood\t?"])
def test_test_files_with_and_without_labels(read, text):
    assert [(x[0], x[2]) for x in read(text, "test")] == [("good", None)]
    columns = {"text": ("Body",), "label": ("Stars",), "id": "Nr"}
    assert read("Body\tNr\nsoup\t3\n", "test", **columns) == [("soup", None, None, "3")]


IMDB = (
    "review,sentiment\n"
    '"A ""must see"".<br /><br />Go, now.",positive\n'
    "Dull,negative\n"
    '"Two lines,\nand a comma",positive\n'
    "Too long,negative\n"
)


def test_the_file_of_imdb(read):
    """Kaggle's file has common column names, quotes, doubled quotes and line breaks."""
    rows = [x[0::2] for x in read(IMDB, name="a.csv")]
    assert rows == [
        ('A "must see".<br /><br />Go, now.', "positive"), ("Dull", "negative"),
        ("Two lines,\nand a comma", "positive"), ("Too long", "negative"),
    ]  # fmt: skip
    for header in ("sentiment,id,review", "Text,target", "comment,title,label"):
        names = header.lower().split(",")
        cells = [{"text": "a", "review": "a", "comment": "a", "label": "x", "target": "x",
                  "sentiment": "x"}.get(name, "7") for name in names]  # fmt: skip
        assert [x[0::2] for x in read(f"{header}\n{','.join(cells)}\n")] == [("a", "x")]


ROWS = ["a,x", "b,y", "c,x", "d,y"]


@pytest.mark.parametrize(
    ("rows", "is_header"),
    [
        (["phrase,feeling", *ROWS], True),
        (["phrase,feeling", "a,1", "b,0", "c,3"], True),
        (["phrase,feeling", "a,0.5", "b,-1"], True),
        (["a,1", "b,2", "c,0", "d,2", "e,0"], False),  # numbers are not header names
        (["a,z", *ROWS, "b,z"], False),
        (["a,z", "b,y", "c,y"], False),  # otherwise a label would be left over
        (["a,v", "b,w", "c,x", "d,y"], False),
        (["phrase,feeling", "a,1"], False),
    ],
)
def test_a_header_is_recognised_by_its_label(read, rows, is_header, caplog):
    caplog.set_level("INFO", "bert_tf")
    text = "\n".join(rows)
    expected = [row.split(",")[0] for row in rows]
    for name, layout in (("a.csv", {}), ("a.csv", {"text": ("0",), "label": ("1",)})):
        caplog.clear()
        assert [x[0] for x in read(text, name=name, **layout)] == expected[is_header:]
        message = "the first line, phrase, feeling, is a header, because the label 'feeling' occurs"
        assert (message in caplog.text) == is_header
    assert [x[0] for x in read(text, name="a.csv", header="no")] == expected


def test_a_development_file_has_the_header_of_the_training_file(tmp_path):
    rows = "\n".join(["phrase,feeling", *ROWS])
    folder = write_files(tmp_path, train__csv=rows, dev__csv="phrase,feeling\na,x\n")
    data = read_data(FileSource(custom_dataset(), folder), ["train", "dev"])
    assert data.labels == ("x", "y") and [x.text_a for x in data.examples["dev"]] == ["a"]


def test_common_names_that_leave_a_choice(read):
    assert read("text,topic,class\na,x,y\n", "test", name="a.csv")[0][0] == "a"
    assert read("text,topic,class\na,x,y\n", name="a.csv", label=("class",))[0][2] == "y"


def test_labels_and_names_of_any_form(read):
    """Pandas' missing values are ordinary labels, and spaces around a label are removed."""
    text = "my text,the label\na,nan\nb,NA\nc, not bad\nd,not bad \ne,None\n"
    rows = read(text, name="a.csv", text=("my text",), label=("the label",))
    assert [x[2] for x in rows] == ["nan", "NA", "not bad", "not bad", "None"]
