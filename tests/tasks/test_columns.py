"""Columns and rows of text files: headers, quotes, encodings, labels and unusable rows."""

import re

import pytest

import bert_tf
from bert_tf.data.columns import BadRows, Layout
from bert_tf.tasks.classification.glue import custom_dataset, find_task
from bert_tf.tasks.classification.source import FileSource
from tests.common import read_examples, write_files


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a custom file: (text_a, text_b, label, id) of each row."""

    def read(data, split="train", name="data.tsv", bad=None, task_type=None, labels=None, **layout):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        dataset = custom_dataset(task_type, labels, Layout(**layout))
        examples = read_examples(dataset, None, split, str(path), bad)
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
        ("sentiment,id,review\nx,7,a\n", [("a", None, "x")]),
        ("Text,target\na,x", [("a", None, "x")]),
        ("comment,title,label\na,7,x", [("a", None, "x")]),
        ("text,text_pair,label\na,b,x", [("a", "b", "x")]),
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
    options = {"name": "data.csv", "text": ("0",), "label": ("1",), "header": "yes"}
    assert [x[0] for x in read("text\ngood\n", "test", **options)] == ["good"]
    with pytest.raises(bert_tf.UserError, match=r"line 1: .*'text'.* expected '1'.*`label_column`"):
        read("text\ngood\n", **options)
    examples = read("x7\tgood\tyes\n", text=("1",), label=("2",), id="0")
    assert examples == [("good", None, "yes", "x7")]
    # A flag declares that the first line is an example.
    assert read("text\tlabel\n", header="no") == [("text", None, "label", "0")]
    # A column may have the name 1.
    assert read("1\ttext\tlabel\na\tb\tc\n", text=("1",)) == [("a", None, "c", "0")]


@pytest.mark.parametrize("text", ["text\ngood\n", "good\n", "text\tlabel\ngood\t?"])
def test_test_files_with_and_without_labels(read, text):
    assert [(x[0], x[2]) for x in read(text, "test")] == [("good", None)]
    columns = {"text": ("Body",), "label": ("Stars",), "id": "Nr"}
    assert read("Body\tNr\nsoup\t3\n", "test", **columns) == [("soup", None, None, "3")]
    with pytest.raises(bert_tf.UserError, match=r"line 1: .*`header=no`"):
        read("good\tyes\n", "test")


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


@pytest.mark.parametrize(
    ("splits", "train", "other", "texts"),
    [
        ("train dev", "\n".join(["phrase,feeling", *ROWS]), "phrase,feeling\nc,x", ("c", None)),
        ("train test", ",0,1\n0,a,x\n1,b,y", ",0,1\n0,c,x", ("c", None)),
        ("train test", ",0,1,2\n0,a,b,x\n1,b,a,y", ",0,1\n0,c,d", ("c", "d")),
        ("test", ",0,1,2\n0,a,b,x\n1,b,a,y", ",0,1\n0,c,d", ("c", "d")),
        ("train test", "0,1\na,x\nb,y", "0\nc", ("c", None)),
    ],
)
def test_other_files_have_the_header_of_the_training_file(tmp_path, splits, train, other, texts):
    folder = write_files(tmp_path, train__csv=train, dev__csv=other, test__csv=other)
    source = FileSource(custom_dataset(), folder)
    *_, (example,) = map(source.read, splits.split())
    assert (example.text_a, example.text_b) == texts


@pytest.mark.parametrize("text", ["1,odd\n2,even\n3,odd", "q,a\nq,b\nq,c\nq,d"])
def test_texts_that_may_be_labels_are_reported(read, text, caplog):
    rows = [tuple(row.split(",")) for row in text.split("\n")]
    assert [x[0::2] for x in read(text, name="a.csv")] == rows
    assert "`text_columns=0` `label_column=1`" in caplog.text
    caplog.clear()
    read(text, name="a.csv", text=("0",), label=("1",))
    assert not caplog.text


def test_common_names_that_leave_a_choice(read):
    assert read("text,topic,class\na,x,y\n", "test", name="a.csv")[0][0] == "a"
    assert read("text,topic,class\na,x,y\n", name="a.csv", label=("class",))[0][2] == "y"


@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_harmless_oddities(read, name):
    """Covers BOM, CRLF, blank lines, trailing empty cells, no final newline, and a 1 MB line."""
    long = "soup " * 200_000
    text = f"\ufefftext\tlabel\r\ngood\tyes\t\t\r\n\r\n{long}\tno"
    rows = read(text.replace("\t", "," if name.endswith("csv") else "\t"), name=name)
    assert [x[::2] for x in rows] == [("good", "yes"), (long, "no")]


BAD = {
    "only one column": (b"no second column", "found 1 column, expected label in column 2"),
    "an unquoted comma": (b"good\tand\tyes", "found 3 columns, expected 2"),
    "no text": (b" \tyes", "text is empty"),
    "no label": (b"good\t ", "label is missing"),
    "NUL": (b"go\0od\tyes", "NUL"),
    "latin-1": (b"caf\xe9\tyes", "UTF-8 .*0xe9"),
}


@pytest.mark.parametrize(("row", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_bad_rows_raise_an_error_or_are_counted(read, name, row, message):
    data = b"text\tlabel\ngood\tyes\n" + row + b"\nbad\tno\n" + row + b"\n"
    data = data.replace(b"\t", b"," if name.endswith("csv") else b"\t")
    with pytest.raises(bert_tf.UserError, match=rf"{name}, line 3: .*{message}.*`skip_bad_rows`"):
        read(data, name=name)
    bad = BadRows(skip=True)
    # The other rows keep their row numbers.
    assert [(x[0], x[3]) for x in read(data, name=name, bad=bad)] == [("good", "0"), ("bad", "2")]
    assert bad.count == 2
    assert f"{name}, line 3: " in bad.first


def test_only_csv_has_quotes(read, caplog):
    rows = read('text,label\n"good, ""very""\nsoup",yes\nbad,"no"\n', name="data.csv")
    assert [x[::2] for x in rows] == [('good, "very"\nsoup', "yes"), ("bad", "no")]
    rows = read('"good\tyes\n"b""a""d"\t"no"\n')
    assert [x[::2] for x in rows] == [('"good', "yes"), ('"b""a""d"', '"no"')]
    assert "texts in quotes" in caplog.text and "1 row with" not in caplog.text
    rows = read('text,label\n"a,x\ngood,y\nfine,z\nb",w\nlast,v', name="data.csv")
    assert len(rows) == 2 and "data.csv, line 2: 1 row with quoted" in caplog.text


@pytest.mark.parametrize(
    ("text", "rows", "lost", "first"),
    [
        (",phrase,mood\n0,a,x\n1,b,y\n", "ab", 0, None),
        ("0,1\na,1\nb,0\n", "ab", 0, None),
        (",0,1\n7,a,1\n9,b,0\n", "ab", 0, None),
        ("sep=;\ntext;label\na;x\nb,;y\n", ["a", "b,"], 0, None),
        ('"SEP=|"\r\ntext|label\r\na|x\r\n', "a", 0, None),
        ("text,label\ra,x\rb,y", "ab", 0, None),
        ('text,label\na,x\n"b,y\nc,x\nd,y\n', "acd", 1, "line 3: .*unexpected end"),
        ('text,label\n"a,x\nb,"y"\n"c,y\nd,x\n', "bd", 2, "line 2: not comma-separated"),
        ('text,label\n"a\nb",x\n"c" d,y\ne,y\n', ["a\nb", "e"], 1, "line 4: not comma-separated"),
    ],
)
def test_all_rows_are_read_or_reported(read, text, rows, lost, first):
    """A row with a wrong quote is named by its first line."""
    bad = BadRows(skip=True)
    assert [x[0] for x in read(text, name="a.csv", bad=bad)] == [*rows]
    assert bad.count == lost and re.search(first or "^None$", str(bad.first))
    if not lost and "phrase" not in text:
        assert [x[0] for x in read(text, "test", name="a.csv")] == [*rows]


@pytest.mark.parametrize(
    ("task_name", "split", "rows"),
    [
        ("sst2", "train", ["a\t1", "b\t0"]),
        ("rte", "dev", ["0\ta\tb\tentailment", "1\tb\tb\tentailment"]),
        ("sts", "train", ["\t" * 7 + "a\tb\t4.5", "\t" * 7 + "b\tb\t1"]),
        ("qqp", "test", ["0\ta\tb", "1\tb\tb"]),
    ],
)
def test_own_rows_of_glue_tasks_need_no_header(tmp_path, task_name, split, rows):
    for header in ([], ["index" + "\tcaf\xe9" * rows[0].count("\t")]):
        (tmp_path / f"{split}.tsv").write_text("\n".join([*header, *rows]), "latin-1")
        examples = read_examples(find_task(task_name), str(tmp_path), split)
        assert [x.text_a for x in examples] == ["a", "b"]


def test_several_labels_in_columns(read):
    text = "text\tsalty\thot\ngood\t1\t0\nbad\t1\t1\nsoup\t0\t0\n"
    options = {"task_type": "multi_label", "label": ("salty", "hot")}
    assert [x[2] for x in read(text, **options)] == [("salty",), ("salty", "hot"), ()]
    # Columns keep the given order, even if a label is never 1.
    layout = Layout(label=("salty", "hot"))
    assert custom_dataset("multi_label", None, layout).labels == ("salty", "hot")
    for labels, salty in ((("s", "h"), "s"), (("hot", "salty"), "salty")):
        assert [x[2] for x in read(text, labels=labels, **options)] == [(salty,), labels, ()]
    with pytest.raises(bert_tf.UserError, match=r"line 2: .*label hot is 2"):
        read("text\tsalty\thot\ngood\t1\t2\n", **options)


@pytest.mark.parametrize(
    ("task_name", "data", "message"),
    [
        ("mrpc", b"h\n1\t2\t3\ta\n", "line 2: found 4 columns, .* 5"),
        ("cola", b"gj04\t1\t\n", "line 1: found 3 columns, .* 4"),
    ],
)
def test_bad_rows_of_glue(tmp_path, task_name, data, message):
    (tmp_path / "train.tsv").write_bytes(data)
    with pytest.raises(bert_tf.UserError, match=rf"train\.tsv.*{message}"):
        read_examples(find_task(task_name), str(tmp_path), "train")
