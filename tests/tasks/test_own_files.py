"""Custom files: recognised formats, reports, and errors about columns."""

import datetime
import gzip
import json
import sys
from collections import Counter

import pytest

import bert_tf
from bert_tf.data import tables
from bert_tf.data.columns import Layout
from bert_tf.tasks.classification.examples import Example, hold_out
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.options import DevSplit
from bert_tf.tasks.classification.source import FileSource
from tests.common import read_data, read_examples, write_files

ROWS = [("good, very good; or so", "yes"), ('"so" so', "no"), ("bad\u00e4", "no")]
OBJECTS = [{"nr": i, "text": text, "label": label} for i, (text, label) in enumerate(ROWS)]


def read(path, split="train", task_type=None, **layout):
    dataset = custom_dataset(task_type, None, Layout(**layout))
    examples = read_examples(dataset, None, split, str(path))
    return [(x.text_a, x.label) if x.text_b is None else (x.text_a, x.text_b, x.label)
            for x in examples]  # fmt: skip


def delimited():
    rows = [f'"{text.replace(chr(34), chr(34) * 2)}",{label}' for text, label in ROWS]
    return "\n".join(["text,label", *rows]) + "\n"


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", delimited()),
        ("a.tsv", "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *ROWS])),
        ("a.jsonl", "\n".join(map(json.dumps, OBJECTS))),
        (
            "a.txt",
            "\n".join(map(json.dumps, [{"more": "x\u2028" * 10_000, **OBJECTS[0]}, *OBJECTS[1:]])),
        ),
        ("a.json", json.dumps(OBJECTS, indent=2)),
        ("a", json.dumps(OBJECTS)),
        ("a.json", "\n".join(map(json.dumps, OBJECTS))),
    ],
)
def test_formats_are_recognised(tmp_path, name, text, is_packed):
    data = text.encode()
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(data) if is_packed else data)
    assert read(path) == ROWS


@pytest.mark.parametrize("header", [["nr", "review", "sentiment"], ["id", "text", "label"]])
def test_excel(tmp_path, header):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_sheet("other").append(["not read"])
    cells = [1, "a\nb", 1], [], [2, '"c", d', 0.5], [3, datetime.date(2020, 1, 2), "x"]
    for row in (header, *cells):
        book.active.append(row)
    book.active["F9"].font = openpyxl.styles.Font(bold=True)  # a formatted cell without a value
    book.save(tmp_path / "a.xlsx")
    rows = [("a\nb", "1"), ('"c", d', "0.5"), ("2020-01-02 00:00:00", "x")]
    assert read(tmp_path / "a.xlsx") == rows
    assert read(tmp_path / "a.xlsx", text=("1",), label=("0",))[0] == ("a\nb", "1")
    with pytest.raises(bert_tf.UserError, match=r"a\.xlsx, row 5: the score is 'x', expected"):
        read(tmp_path / "a.xlsx", task_type="regression")
    (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(bert_tf.UserError, match=r"b\.xlsx: cannot be read as Excel"):
        read(tmp_path / "b.xlsx")


def test_what_is_not_a_delimiter(tmp_path):
    """Texts contain names, delimiters and odd line ends."""
    for text in ("label, or not", "a\u2028b, c", "a\x0cb, c"):
        (tmp_path / "a.tsv").write_text(f"{text}\tyes\nb, c\tno\n")
        assert read(tmp_path / "a.tsv", header="no") == [(text, "yes"), ("b, c", "no")]
    (tmp_path / "a.csv").write_text('text,label\n"a;b",x\n"c;d",y\n')
    assert read(tmp_path / "a.csv") == [("a;b", "x"), ("c;d", "y")]
    (tmp_path / "a.tsv").write_text("[text]\tlabel\na\tx\n")
    assert read(tmp_path / "a.tsv", text=("[text]",)) == [("a", "x")]


def test_several_labels_in_a_file_with_columns_by_number(tmp_path):
    rows = 'phrase,tags\na,"x,y"\nb,x\nc,y\nd,"x,y"\n'
    columns = {"text": ("0",), "label": ("1",)}
    (tmp_path / "a.csv").write_text(rows)
    with pytest.raises(bert_tf.UserError, match="`header=yes`"):
        read(tmp_path / "a.csv", task_type="multi_label", **columns)
    (tmp_path / "a.csv").write_text(rows.replace("tags", '"x,z"'))
    assert read(tmp_path / "a.csv", task_type="multi_label", **columns)[0] == ("phrase", ("x", "z"))


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_pylist(OBJECTS)
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == ROWS
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(bert_tf.UserError, match=r"b\.parquet: cannot be read as Parquet"):
        read(tmp_path / "b.parquet")


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.parquet", "pyarrow")])
def test_missing_packages(tmp_path, monkeypatch, name, package):
    for module in ("openpyxl", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(bert_tf.UserError, match=f"pip install .*{package}"):
        read(tmp_path / name)


def test_delimiters_that_are_given(tmp_path):
    (tmp_path / "a.csv").write_text("good, or so#yes\nbad#no\n")
    options = {"delimiter": "#", "header": "no"}
    assert read(tmp_path / "a.csv", **options) == [("good, or so", "yes"), ("bad", "no")]
    assert tables.parse_delimiter("\\t") == "\t" and tables.parse_delimiter(" ") == " "


def test_values_of_json(tmp_path):
    rows = [
        {"text": "a", "label": ["x", 2]}, {"label": []}, {"text": "b", "label": [], "more": {}},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(bert_tf.UserError, match=r"a\.jsonl, line 2: text is missing"):
        read(tmp_path / "a.jsonl", task_type="multi_label")
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(rows[i]) for i in (0, 2)))
    assert read(tmp_path / "a.jsonl", task_type="multi_label") == [("a", ("x", "2")), ("b", ())]


ROW = '{"text": "a", "label": "b"}'
PACKED = gzip.compress(b"[" + b" " * 100_000)


@pytest.mark.parametrize(
    ("name", "data", "layout", "message"),
    [
        ("a.csv", "text,text,label\na,b,c\n", {}, "line 1: .*'text'"),
        ("a.csv", "Text,text ,label\na,b,c\n", {"text": ("TEXT",)}, "line 1: .*'TEXT'"),
        ("a.csv", "text,label\na,b\n", {"label": ("text",)}, "'text'"),
        ("a.csv", "text,label\na,b\n", {"text": ("text", "text")}, "'text'.*`text_columns`"),
        ("a.csv", "a,b\nc,d\n", {"text": ("0",), "label": ("0",)}, "'0'"),
        ("a.csv", "text,n,label\na,1,b\n", {"label": ("n",), "numbers": ("n",)}, "numeric_columns"),
        ("a.csv", "text,label\na,b\nc\n", {}, "line 3: found 1 column"),
        ("a.csv", b"PK\x03\x04" + bytes(50), {}, "an archive"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1" + bytes(50), {}, "xlsx"),
        ("a.csv", b"BZh91AY&SY" + bytes(50), {}, "a compressed file"),
        ("a.csv", "a,b\n", {"delimiter": "##"}, "`delimiter=##`"),
        ("a.jsonl", ROW, {"delimiter": ";"}, "`delimiter=;`"),
        ("a.jsonl", ROW + "\n{", {}, "line 2: invalid JSON"),
        ("a.json", '[{"text": "a", "label": ["b", "c"]}]', {}, "row 1: the labels .*multi_label"),
        ("a.json", '[{"text": "a", "label": NaN}]', {}, "row 1: the label is missing"),
        ("a.jsonl", '{"text": ["a", "b"], "label": "b"}\n', {}, "line 1: text_a"),
        ("a.json", f"[{ROW}, 3]", {}, "row 2: expected an object"),
        ("a.json", "[1,\n", {}, "line 2: invalid JSON"),
        ("a.json.gz", PACKED[:-20], {}, r"cannot be read \(Compressed file ended"),
        ("a.json", '[{"text": "a"}]', {"header": "no"}, "`header=no`"),
        ("a.tsv", "Body\tStars\na\t1\n", {"text": ("Boody",)}, "line 1.*Stars, expected Boody"),
        ("a.tsv", "a\tb\n", {"text": ("Body",), "header": "no"}, "`header=no`.*'Body'"),
        ("a.tsv", "a\tb\n", {"text": ("0",)}, "`label_column`"),
        ("a.tsv", "a\tb\n", {"text": ("0",), "label": ("5",)}, "line 1: found 2 columns, .* 6 "),
        ("a.tsv", "a\tb\n", {"label": ("1",), "header": "no"}, "`label_column`.*`text_columns`"),
        ("a.tsv", "a\tb\tc\td\n", {"header": "no"}, "line 1: found 4 columns"),
        ("a.tsv", "only\n", {"header": "no"}, "line 1: found 1 column"),
        ("a.tsv", "text\tstars\na\t1\n", {}, "line 1.* 'label'"),
        ("a.tsv", "question\tlabel\na\t1\n", {"header": "yes"}, "line 1.* 'text' .*`text_columns`"),
        ("a.csv", "text,topic,class\na,x,y\n", {}, "'topic', 'class'.*label_column"),
        ("a.tsv", "text\tlabel\n", {}, "no examples"),
        *(("a.csv", f"text,x,label\na,{cell},b\n", {"numbers": ("x",)}, f"line 2: x is '{cell}'")
          for cell in ("", "much", "nan", "inf", "1_0")),
    ],
)  # fmt: skip
def test_errors(tmp_path, name, data, layout, message):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(bert_tf.UserError, match=message):
        read(tmp_path / name, **layout)


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
