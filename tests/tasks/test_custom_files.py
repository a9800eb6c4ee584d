"""Custom files: formats, headers, quotes, encodings, labels, unusable rows and held-out rows."""

import datetime
import gzip
import json
import re
import sys
from collections import Counter

import pytest

import bert_tf
from bert_tf.data import tables
from bert_tf.data.columns import Layout, RowErrors
from bert_tf.tasks.classification.examples import Example, hold_out
from bert_tf.tasks.classification.glue import custom_dataset, find_dataset
from bert_tf.tasks.classification.options import DevSplit
from bert_tf.tasks.classification.source import FileSource
from tests.common import read_data, read_examples, write_files


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
    # Common names that leave a choice of the label.
    text = "text,topic,class\na,x,y\n"
    assert read(text, "test", name="a.csv")[0][0] == "a"
    assert read(text, name="a.csv", label=("class",))[0][2] == "y"
    columns = {"text": ("Body",), "label": ("Stars",), "id": "Nr"}
    assert read("Body\tNr\nsoup\t3\n", "test", **columns) == [("soup", None, None, "3")]


FLAGS = {"text": "text_columns", "label": "label_column", "id": "id_column"}
NO, YES = {"header": "no"}, {"header": "yes"}
NAMED = {**YES, "text": ("phrase",), "label": ("mood",)}
ROWS = "a,x\nb,y\nc,x\nd,y"
# What the first line is cannot be read from it: the flags to type, and the first example with them.
QUESTIONS = [
    ("a.tsv", "good soup\tyes\nbad\tno\n", NO, ("good soup", None, "yes")),
    ("a.csv", f"phrase,mood\n{ROWS}", NAMED, ("a", None, "x")),
    ("a.tsv", "label\tphrase\nx\ta\n", {**YES, "text": ("phrase",)}, ("a", None, "x")),
    ("a.csv", "review,phrase\nx,a\n", {**NAMED, "label": ("review",)}, ("a", None, "x")),
    ("a.csv", "0,1\na,1\nb,0\n", {**NAMED, "text": ("0",), "label": ("1",)}, ("a", None, "1")),
    ("a.csv", "text;label\na, b;x\n", {"delimiter": "semicolon"}, ("a, b", None, "x")),
    ("a.csv", "text\tlabel\na, b\tx\n", {"delimiter": "tab"}, ("a, b", None, "x")),
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
        read(data, name=name, bad=RowErrors(skip=False))
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
        examples = read_examples(find_dataset(task_name), str(tmp_path), split)
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
    # Columns by number
    options = {"task_type": "multi_label", "text": ("0",), "label": ("1",), "name": "a.csv"}
    rows = 'phrase,tags\na,"x,y"\nb,x\nc,y\nd,"x,y"\n'
    with pytest.raises(bert_tf.UserError, match="`header=yes`"):
        read(rows, **options)
    assert read(rows.replace("tags", '"x,z"'), **options)[0][::2] == ("phrase", ("x", "z"))


EXAMPLES = [("good, very good; or so", "yes"), ('"so" so', "no"), ("bad\u00e4", "no")]
OBJECTS = [{"nr": i, "text": text, "label": label} for i, (text, label) in enumerate(EXAMPLES)]
JSON_LINES = "\n".join(map(json.dumps, OBJECTS))
LONG_LINE = json.dumps({"more": "x\u2028" * 10_000, **OBJECTS[0]})


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'text,label\n"good, very good; or so",yes\n"""so"" so",no\nbad\u00e4,no\n'),
        ("a.tsv", "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *EXAMPLES])),
        ("a.jsonl", JSON_LINES),
        ("a.txt", "\n".join([LONG_LINE, *JSON_LINES.split("\n")[1:]])),
        ("a.json", json.dumps(OBJECTS, indent=2)),
        ("a", json.dumps(OBJECTS)),
        ("a.json", JSON_LINES),
    ],
)
def test_formats_are_recognised(read, name, text, is_packed):
    data = gzip.compress(text.encode()) if is_packed else text
    assert [x[::2] for x in read(data, name=name + ".gz" * is_packed)] == EXAMPLES


@pytest.mark.parametrize("header", [["nr", "review", "sentiment"], ["id", "text", "label"]])
def test_excel(read, tmp_path, header):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_sheet("other").append(["not read"])
    cells = [1, "a\nb", 1], [], [2, '"c", d', 0.5], [3, datetime.date(2020, 1, 2), "x"]
    for row in (header, *cells):
        book.active.append(row)
    book.active["F9"].font = openpyxl.styles.Font(bold=True)  # a formatted cell without a value
    book.save(tmp_path / "a.xlsx")
    data = (tmp_path / "a.xlsx").read_bytes()
    rows = [("a\nb", "1"), ('"c", d', "0.5"), ("2020-01-02 00:00:00", "x")]
    assert [x[::2] for x in read(data, name="a.xlsx")] == rows
    assert read(data, name="a.xlsx", text=("1",), label=("0",))[0][::2] == ("a\nb", "1")
    with pytest.raises(bert_tf.UserError, match=r"a\.xlsx, row 5: the score is 'x', expected"):
        read(data, name="a.xlsx", task_type="regression")


def test_parquet(read, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(OBJECTS), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    assert [x[::2] for x in read(data, name="a.parquet")] == EXAMPLES


@pytest.mark.parametrize(
    ("name", "module", "kind"),
    [("a.xlsx", "openpyxl", "Excel"), ("a.parquet", "pyarrow.parquet", "Parquet")],
)
def test_files_that_a_library_cannot_read(read, monkeypatch, name, module, kind):
    pytest.importorskip(module)
    with pytest.raises(bert_tf.UserError, match=rf"{name}: cannot be read as {kind}"):
        read(b"PK\x03\x04", name=name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(bert_tf.UserError, match=f"pip install {module.partition('.')[0]}"):
        read(b"PK\x03\x04", name=name)


def test_what_is_not_a_delimiter(read):
    """Texts contain names, delimiters and odd line ends."""
    for text in ("label, or not", "a\u2028b, c", "a\x0cb, c"):
        rows = read(f"{text}\tyes\nb, c\tno\n", header="no")
        assert [x[::2] for x in rows] == [(text, "yes"), ("b, c", "no")]
    rows = read('text,label\n"a;b",x\n"c;d",y\n', name="a.csv")
    assert [x[::2] for x in rows] == [("a;b", "x"), ("c;d", "y")]
    assert read("[text]\tlabel\na\tx\n", text=("[text]",))[0][0] == "a"


def test_delimiters_that_are_given():
    assert [tables.parse_delimiter(x) for x in ("#", "\\t", " ")] == ["#", "\t", " "]


def test_values_of_json(read):
    rows = ['{"text": "a", "label": ["x", 2]}', '{"text": "b", "label": [], "more": {}}']
    options = {"name": "a.jsonl", "task_type": "multi_label"}
    assert [x[::2] for x in read("\n".join(rows), **options)] == [("a", ("x", "2")), ("b", ())]
    with pytest.raises(bert_tf.UserError, match=r"a\.jsonl, line 3: text is missing"):
        read("\n".join([*rows, '{"label": []}']), **options)


ROW = '{"text": "a", "label": "b"}'


@pytest.mark.parametrize(
    ("name", "data", "layout", "message"),
    [
        ("a.csv", "Text,text ,label\na,b,c\n", {"text": ("TEXT",)}, "line 1: .*'TEXT'"),
        ("a.csv", "text,label\na,b\n", {"label": ("text",)}, "'text'"),
        ("a.csv", "text,n,label\na,1,b\n", {"label": ("n",), "numbers": ("n",)}, "numeric_columns"),
        ("a.csv", b"PK\x03\x04" + bytes(50), {}, "an archive"),
        ("a.csv", "a,b\n", {"delimiter": "##"}, "`delimiter=##`"),
        ("a.jsonl", ROW, {"delimiter": ";"}, "`delimiter=;`"),
        ("a.jsonl", ROW + "\n{", {}, "line 2: invalid JSON"),
        ("a.json", '[{"text": "a", "label": ["b", "c"]}]', {}, "row 1: the labels .*multi_label"),
        ("a.jsonl", '{"text": ["a", "b"], "label": "b"}\n', {}, "line 1: text_a"),
        ("a.json", f"[{ROW}, 3]", {}, "row 2: expected an object"),
        ("a.json", "[1,\n", {}, "line 2: invalid JSON"),
        ("a.json.gz", gzip.compress(bytes(9), mtime=0)[:-2], {},
         r"cannot be read \(Compressed file ended"),
        ("a.json", '[{"text": "a"}]', {"header": "no"}, "`header=no`"),
        ("a.txt", "a\vb\u2028c\n", {}, r"found a\\x0bb\\u2028c, "),
        ("a.tsv", "a\tb\n", {"text": ("Body",), "header": "no"}, "`header=no`.*'Body'"),
        ("a.tsv", "a\tb\n", {"text": ("0",)}, "`label_column`"),
        ("a.tsv", "a\tb\n", {"text": ("0",), "label": ("5",)}, "line 1: found 2 columns, .* 6$"),
        ("a.tsv", "a\tb\n", {"label": ("1",), "header": "no"}, "`label_column`.*`text_columns`"),
        ("a.tsv", "text\tstars\na\t1\n", {}, "line 1.* 'label'"),
        ("a.tsv", "question\tlabel\na\t1\n", {"header": "yes"}, "line 1.* 'text' .*`text_columns`"),
        ("a.csv", "text,topic,class\na,x,y\n", {}, "'topic', 'class'.*label_column"),
        ("a.csv", "text,x,label\na,b,c\n", {"numbers": ("x",)}, "line 2: x is 'b'"),
    ],
)  # fmt: skip
def test_errors(read, name, data, layout, message):
    with pytest.raises(bert_tf.UserError, match=message):
        read(data, name=name, **layout)


def test_a_single_label(tmp_path, caplog):
    folder = write_files(tmp_path, train__tsv="text\tlabel\na\tx\nb\tx\n")
    with pytest.raises(
        bert_tf.UserError, match=r"train\.tsv: found only the label 'x'.*multi_label"
    ):
        read_data(FileSource(custom_dataset(), folder), ["train"])
    data = read_data(FileSource(custom_dataset("multi_label"), folder), ["train"])
    assert data.labels == ("x",) and "all 2 training examples have the label" in caplog.text


def test_rows_are_held_out_in_proportion():
    examples = [Example("", str(i), None, "rare" if i == 9 else "ab"[i % 3 == 0], str(i))
                for i in range(90)]  # fmt: skip
    train, dev = hold_out(examples, DevSplit(0.2), stratify=True)
    assert len(train) == 72 and len(dev) == 18
    assert sorted(train + dev, key=lambda x: int(x.id)) == examples
    assert Counter(x.label for x in dev) == {"a": 12, "b": 6}
    assert [int(x.id) for x in dev] == sorted(int(x.id) for x in dev)
    assert hold_out(examples, DevSplit(0.2), stratify=True) == (train, dev)
    assert hold_out(examples, DevSplit(0.2, seed=1), stratify=True)[1] != dev
    assert len(hold_out(examples, DevSplit(0.2), stratify=False)[1]) == 18
    with pytest.raises(bert_tf.UserError, match=r"`dev_fraction=0\.001`: found 90 .* evaluation"):
        hold_out(examples, DevSplit(0.001), stratify=True)
