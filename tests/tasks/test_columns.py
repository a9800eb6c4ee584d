"""Columns and rows of text files: headers, quotes, encodings, labels and unusable rows."""

import re

import pytest

import bert_tf
from bert_tf.data.columns import Layout, RowErrors
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
    ("text", "example"),
    [
        ("label\ttext\nyes\tgood\n", ("good", None, "yes")),
        ("id\ttext_a\ttext_b\tlabel\n1\ta\tb\tx\r\n", ("a", "b", "x")),
        ("sentiment\tid\treview\nx\t7\ta\n", ("a", None, "x")),
        ("Text\ttarget\na\tx", ("a", None, "x")),
        ("comment\ttitle\tlabel\na\t7\tx", ("a", None, "x")),
        ("text\ttext_pair\tlabel\na\tb\tx", ("a", "b", "x")),
    ],
)
def test_columns_that_are_not_given(read, text, example):
    assert [x[:3] for x in read(text)] == [example]


def test_columns_by_name_and_number(read, caplog):
    caplog.set_level("INFO", "bert_tf")
    text = "Nr,Title,Body,Stars\nx7,good,soup,yes\nx8,bad,soup,no\n"
    examples = read(text, name="data.csv", text=("title", "Body"), label=("Stars",), id="Nr")
    assert examples == [("good", "soup", "yes", "x7"), ("bad", "soup", "no", "x8")]
    examples = read(text, name="data.csv", text=("2",), label=("3",), header="yes")
    assert examples == [("soup", None, "yes", "0"), ("soup", None, "no", "1")]
    examples = read("x7\tgood\tyes\n", text=("1",), label=("2",), id="0")
    assert examples == [("good", None, "yes", "x7")]
    caplog.clear()
    assert read("text\tlabel\n", header="no") == [("text", None, "label", "0")]
    assert "`text_columns` and `label_column`, from 0), columns 0 (text), 1 (label)" in caplog.text
    # A column may have the name 1.
    assert read("1\ttext\tlabel\na\tb\tc\n", text=("1",)) == [("a", None, "c", "0")]
    # A list of JSON numbers has a probability for each label.
    row = '{"text": "a", "label": [0.25, 0.75]}'
    assert read(row, name="a.jsonl", labels=("x", "y"))[0][2] == (0.25, 0.75)
    columns = {"text": ("Body",), "label": ("Stars",), "id": "Nr"}
    assert read("Body\tNr\nsoup\t3\n", "test", **columns) == [("soup", None, None, "3")]


FLAGS = {"text": "text_columns", "label": "label_column", "id": "id_column"}
NO, YES = {"header": "no"}, {"header": "yes"}
NAMED = {**YES, "text": ("phrase",), "label": ("mood",)}
BY_NUMBER = {"text": ("0",), "label": ("1",)}
ROWS = "a,x\nb,y\nc,x\nd,y"
# What the first line is cannot be read from it: the flags to type, and the first example with them.
QUESTIONS = [
    ("a.tsv", "good soup\tyes\nbad\tno\n", NO, ("good soup", None, "yes")),
    ("a.tsv", "a\tb\tyes\n", NO, ("a", "b", "yes")),
    ("a.csv", f"phrase,mood\n{ROWS}", NAMED, ("a", None, "x")),
    ("a.csv", "id,phrase,mood\n1,a,x\n", NAMED, ("a", None, "x")),
    ("a.tsv", "label\tphrase\nx\ta\n", {**YES, "text": ("phrase",)}, ("a", None, "x")),
    ("a.csv", "review,phrase\nx,a\n", {**NAMED, "label": ("review",)}, ("a", None, "x")),
    ("a.csv", ",phrase,mood\n0,a,x\n", NAMED, ("a", None, "x")),
    ("a.csv", "0,1\na,1\nb,0\n", {**YES, **BY_NUMBER}, ("a", None, "1")),
    ("a.csv", ",0,1\n7,a,1\n9,b,0\n", {**YES, **BY_NUMBER}, ("a", None, "1")),
    ("a.csv", "q,a\nq,b\nq,c\nq,d", NO, ("q", None, "a")),
    ("a.csv", "text;label\na, b;x\n", {"delimiter": "semicolon"}, ("a, b", None, "x")),
    ("a.csv", "text\tlabel\na, b\tx\n", {"delimiter": "tab"}, ("a, b", None, "x")),
    ("a.txt", "text|label\na|x\n", {"delimiter": "pipe"}, ("a", None, "x")),
    ("a.tsv", "text,label\na,x\n", {"delimiter": "comma"}, ("a", None, "x")),
    ("a.txt", "[a]\tx\n", {"delimiter": "tab", **NO}, ("[a]", None, "x")),
    ("test.txt", "a, b\nc, d\n", {"delimiter": "tab", **NO}, ("a, b", None, None)),
    ("test.tsv", "good\n", NO, ("good", None, None)),
    ("test.csv", "id,body\n1,a\n", {**YES, "text": ("body",)}, ("a", None, None)),
    ("test.tsv", "a\tx\n", {**NO, "text": ("0",)}, ("a", None, None)),
]


@pytest.mark.parametrize(("name", "text", "flags", "example"), QUESTIONS)
def test_errors_say_what_to_type(read, name, text, flags, example):
    split, given = "test" if name.startswith("test") else "train", {}
    while given != flags:
        with pytest.raises(bert_tf.UserError) as error:
            read(text, split, name=name, **given)
        advice = {*re.findall(r"`(\w+)(?:=([^`]+))?`", str(error.value))}
        typed = {
            field: value
            for field, value in flags.items()
            if not advice.isdisjoint((FLAGS.get(field, field), x) for x in (value, "NAME", ""))
        }
        assert typed.keys() - given.keys(), error.value
        given |= typed
    assert read(text, split, name=name, **given)[0][:3] == example


@pytest.mark.parametrize(
    ("rows", "is_doubtful"),
    [
        (f"phrase,feeling\n{ROWS}", True),
        ("phrase,feeling\na,1\nb,0\nc,3", True),
        ("phrase,feeling\na,0.5\nb,-1", True),
        ("0,1\na,x\nb,x", True),
        (",0,1\n1,a,x\n2,b,x", True),
        ("a,1\nb,2\nc,0\nd,2\ne,0", False),  # numbers are not header names
        (f"a,z\n{ROWS}\nb,z", False),
        ("a,z\nb,y\nc,y", False),  # otherwise a label would be left over
        ("a,v\nb,w\nc,x\nd,y", False),
        ("phrase,feeling\na,1", False),
    ],
)
def test_a_label_that_may_be_a_name(read, rows, is_doubtful):
    """The columns are given by number, so the first line is an example unless it looks odd."""
    first, *_ = cells = [row.split(",") for row in rows.split("\n")]
    columns = {"text": (str(len(first) - 2),), "label": (str(len(first) - 1),)}
    if is_doubtful:
        with pytest.raises(bert_tf.UserError, match="`header=yes` or `header=no`"):
            read(rows, name="a.csv", **columns)
    options = {**columns, **(NO if is_doubtful else {})}
    assert [x[0] for x in read(rows, name="a.csv", **options)] == [x[-2] for x in cells]


@pytest.mark.parametrize(
    ("train", "layout", "other", "expected"),
    [
        (f"phrase,mood\n{ROWS}", NAMED, "mood,phrase\nx,c", ("c", None)),
        (f"phrase,mood\n{ROWS}", NAMED, "c,x", "found .*c.*'phrase'"),
        (f"text,label\n{ROWS}", {}, "c,x", "found c, x, expected text;"),
        (f"text,label\n{ROWS}", {}, "sentence,label\nc,x", "expected 'text'"),
        (ROWS, NO, "text,x", ("text", None)),
        ("a,b,x\nb,a,y", NO, "c,d,x", ("c", "d")),
        ("n,a,x\nn,b,y", {"text": ("1",), "label": ("2",)}, "n,c,x", ("c", None)),
        ("n,a,x\nn,b,y", {"text": ("1",), "label": ("2",)}, "n,text,x", "may be a header"),
        ("x,a\ny,b", {"text": ("1",), "label": ("0",)}, "x,c", ("c", None)),
    ],
)
def test_other_files_are_read_like_the_training_file(tmp_path, train, layout, other, expected):
    folder = write_files(tmp_path, train__csv=train, dev__csv=other, test__csv=other)
    source = FileSource(custom_dataset(layout=Layout(**layout)), folder)
    source.read("train")
    for split in ("dev", "test"):
        if isinstance(expected, str):
            with pytest.raises(bert_tf.UserError, match=rf"{split}\.csv, line 1: .*{expected}"):
                source.read(split)
        else:
            (example,) = source.read(split)
            assert (example.text_a, example.text_b) == expected


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
    bad = RowErrors(skip=True)
    # The other rows keep their row numbers.
    assert [(x[0], x[3]) for x in read(data, name=name, bad=bad)] == [("good", "0"), ("bad", "2")]
    assert bad.count == 2
    assert f"{name}, line 3: " in bad.first


def test_only_csv_has_quotes(read, caplog):
    rows = read('text,label\n"good, ""very""\nsoup",yes\nbad,"no"\n', name="data.csv")
    assert [x[::2] for x in rows] == [('good, "very"\nsoup', "yes"), ("bad", "no")]
    rows = read('"good\tyes\n"b""a""d"\t"no"\n', header="no")
    assert [x[::2] for x in rows] == [('"good', "yes"), ('"b""a""d"', '"no"')]
    assert "texts in quotes" in caplog.text


@pytest.mark.parametrize(
    ("text", "rows", "lost", "first"),
    [
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
    bad = RowErrors(skip=True)
    assert [x[0] for x in read(text, name="a.csv", bad=bad)] == [*rows]
    assert bad.count == lost and re.search(first or "^None$", str(bad.first))


@pytest.mark.parametrize(
    ("task_name", "split", "rows"),
    [
        ("sst2", "train", ["a\t1", "b\t0"]),
        ("rte", "dev", ["0\ta\tb\tentailment", "1\tb\tb\tentailment"]),
        ("sts", "train", ["\t" * 7 + "a\tb\t4.5", "\t" * 7 + "b\tb\t1"]),
        ("qqp", "test", ["0\ta\tb", "1\tb\tb"]),
    ],
)
def test_the_header_of_glue_is_skipped(tmp_path, task_name, split, rows, caplog):
    """As in the release, whose files have one; a warning names what may be an example."""
    path = tmp_path / f"{split}.tsv"
    header = "index" + "\tcaf\xe9" * rows[0].count("\t")
    for lines, message in (([header, *rows], False), (rows, True)):
        caplog.clear()
        path.write_text("\n".join(lines), "latin-1")
        examples = read_examples(find_task(task_name), str(tmp_path), split)
        assert [x.text_a for x in examples] == ["a", "b"][message:]
        assert ("first line is skipped as the header" in caplog.text) == message


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
