"""Files of one's own: where their columns are, and what becomes of rows that cannot be used."""

import pytest
from common import read_data

import bert_tf
from bert_tf import tasks
from bert_tf.tasks.rows import BadRows


def own(tmp_path, data, split="train", name="data.tsv", bad=None, task_type=None, labels=None,
        **layout):  # fmt: skip
    """Reads `data` as a file of one's own; returns (text_a, text_b, label, id) of each row."""
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    task = tasks.classification.custom_task(
        task_type, labels, tasks.classification.Layout(**layout)
    )
    found = tasks.classification.read_examples(task, None, split, str(path), bad)
    return [(x.text_a, x.text_b, x.label, x.id) for x in found]


def test_columns_by_name_and_number(tmp_path):
    text = "Nr,Title,Body,Stars\nx7,good,soup,yes\nx8,bad,soup,no\n"
    found = own(tmp_path, text, name="data.csv", text=("title", "Body"), label=("Stars",), id="Nr")
    assert found == [("good", "soup", "yes", "x7"), ("bad", "soup", "no", "x8")]
    found = own(tmp_path, text, name="data.csv", text=("2",), label=("3",), header="yes")
    assert found == [("soup", None, "yes", "0"), ("soup", None, "no", "1")]
    found = own(tmp_path, "x7\tgood\tyes\n", text=("1",), label=("2",), id="0")
    assert found == [("good", None, "yes", "x7")]
    # A first line that looks like a header is an example if it is said to be one.
    found = own(tmp_path, "text\tlabel\n", header="no")
    assert found == [("text", None, "label", "0")]
    # A column may be called 1.
    found = own(tmp_path, "1\ttext\tlabel\na\tb\tc\n", text=("1",))
    assert found == [("a", None, "c", "0")]


def test_a_test_file_needs_no_label_column(tmp_path):
    found = own(tmp_path, "Body\tNr\nsoup\t3\n", "test", text=("Body",), label=("Stars",), id="Nr")
    assert found == [("soup", None, None, "3")]


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("Body\tStars\na\t1\n", {"text": ("Boody",)}, "line 1: the header has no column `Boody`"),
        ("a\tb\n", {"text": ("Body",), "header": "no"}, "--header=no, but the column 'Body'"),
        ("a\tb\n", {"text": ("0",)}, "wants --label_column too"),
        ("a\tb\n", {"text": ("0",), "label": ("5",)}, "line 1: label .* column 6, but there are 2"),
        ("a\tb\n", {"label": ("1",)}, "--id_column and --numeric_columns want --text_columns"),
        ("", {}, "not a single example"),
        ("text\tlabel\n", {}, "not a single example"),
    ],
)
def test_columns_that_are_not_there(tmp_path, text, layout, message):
    with pytest.raises(bert_tf.UserError, match=message):
        own(tmp_path, text, **layout)


def test_csv_has_quotes_and_tsv_has_none(tmp_path):
    text = 'text,label\n"good, ""very""\nsoup",yes\nbad,"no"\n'
    found = own(tmp_path, text, name="data.csv")
    assert [x[:3] for x in found] == [('good, "very"\nsoup', None, "yes"), ("bad", None, "no")]
    found = own(tmp_path, '"good\tyes\nb"a"d\t"no"\n')
    assert [x[:3] for x in found] == [('"good', None, "yes"), ('b"a"d', None, '"no"')]


@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_what_is_harmless(tmp_path, name):
    """BOM, CRLF, blank lines, empty cells at the end, no end of line at the end, a line of 1 MB."""
    long = "soup " * 200_000
    text = f"\ufefftext\tlabel\r\ngood\tyes\t\t\r\n\r\n{long}\tno"
    text = text.replace("\t", "," if name.endswith("csv") else "\t")
    found = own(tmp_path, text, name=name)
    assert [x[:3] for x in found] == [("good", None, "yes"), (long, None, "no")]


BAD = [
    ("only one", b"no second column", "label is expected in column 2, but there are 1"),
    ("an unquoted comma", b"good\tand\tyes", "3 columns, but the first line has 2"),
    ("no text", b" \tyes", "text is empty"),
    ("no label", b"good\t ", "the label is empty"),
    ("NUL", b"go\0od\tyes", "there is a NUL character in it"),
    ("latin-1", b"caf\xe9\tyes", "not UTF-8 text .the byte 0xe9."),
]


@pytest.mark.parametrize(("row", "message"), [x[1:] for x in BAD], ids=[x[0] for x in BAD])
@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_bad_rows(tmp_path, name, row, message):
    data = b"text\tlabel\ngood\tyes\n" + row + b"\nbad\tno\n" + row + b"\n"
    data = data.replace(b"\t", b"," if name.endswith("csv") else b"\t")
    with pytest.raises(bert_tf.UserError, match=rf"data\..sv, line 3: {message}.*--skip_bad_rows"):
        own(tmp_path, data, name=name)
    bad = BadRows(skip=True)
    found = own(tmp_path, data, name=name, bad=bad)
    # The rows that are left keep the numbers that they have in the file.
    assert [(x[0], x[3]) for x in found] == [("good", "0"), ("bad", "2")]
    assert bad.count == 2
    assert "line 3: " in bad.first


def test_bad_rows_of_csv_are_named_by_their_first_line(tmp_path):
    text = 'text,label\n"two\nlines",yes\n"good" soup,no\nbad,no\n'
    with pytest.raises(bert_tf.UserError, match=r"data.csv, line 4: not comma-separated text"):
        own(tmp_path, text, name="data.csv")
    bad = BadRows(skip=True)
    found = own(tmp_path, text, name="data.csv", bad=bad)
    assert [x[0] for x in found] == ["two\nlines", "bad"]
    with pytest.raises(bert_tf.UserError, match=r"data.csv, line 3: .*unexpected end of data"):
        own(tmp_path, 'text,label\ngood,yes\n"bad,no\nsoup,no\n', name="data.csv")


@pytest.mark.parametrize("score", ["nan", "inf", "1e39", "1_0", "much", ""])
def test_scores_are_numbers(tmp_path, score):
    text = f"text\tlabel\ngood\t 4.5\nbad\t{score}\n"
    with pytest.raises(
        bert_tf.UserError, match=f"line 3: the score '{score}' is (no number|more than)"
    ):
        own(tmp_path, text, task_type="regression")
    found = own(tmp_path, text, task_type="regression", bad=BadRows(skip=True))
    assert found == [("good", None, 4.5, "0")]


def test_several_labels_in_one_cell(tmp_path):
    text = "text\tlabel\ngood\thot; salty\nbad\t\nsoup\tsalty\n"
    found = own(tmp_path, text, task_type="multi_label", separator=";")
    assert [x[2] for x in found] == [("hot", "salty"), (), ("salty",)]
    task = tasks.classification.custom_task(
        "multi_label", None, tasks.classification.Layout(separator=";")
    )
    source = tasks.classification.FileSource(task, None, {"train": str(tmp_path / "data.tsv")})
    assert read_data(source, ["train"]).labels == ("hot", "salty")


def test_several_labels_in_columns_of_their_own(tmp_path):
    text = "text\tsalty\thot\ngood\t1\t0\nbad\t1\t1\nsoup\t0\t0\n"
    how = {"task_type": "multi_label", "label": ("salty", "hot")}
    assert [x[2] for x in own(tmp_path, text, **how)] == [("salty",), ("salty", "hot"), ()]
    # In the order in which they are given, whether one is ever 1 or not.
    assert tasks.classification.custom_task(
        "multi_label", None, tasks.classification.Layout(label=("salty", "hot"))
    ).labels == (
        "salty",
        "hot",
    )
    found = own(tmp_path, text, labels=("s", "h"), **how)
    assert [x[2] for x in found] == [("s",), ("s", "h"), ()]
    with pytest.raises(bert_tf.UserError, match="line 2: 0 or 1 was expected for the label hot"):
        own(tmp_path, "text\tsalty\thot\ngood\t1\t2\n", **how)
