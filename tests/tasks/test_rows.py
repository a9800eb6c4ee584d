"""Rows of tab- and comma-separated files: quotes, encodings, labels and unusable rows."""

import pytest

import bert_tf
from bert_tf.data.columns import Layout
from bert_tf.data.rows import BadRows
from bert_tf.tasks.classification.glue import custom_dataset, find_task
from bert_tf.tasks.classification.reading import read_examples


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a custom file: (text, label, id) of each row."""

    def read(data, name="data.tsv", bad=None, task_type=None, labels=None, **layout):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        dataset = custom_dataset(task_type, labels, Layout(**layout))
        examples = read_examples(dataset, None, "train", str(path), bad)
        assert all(x.text_b is None for x in examples)
        return [(x.text_a, x.label, x.id) for x in examples]

    return read


@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_harmless_oddities(read, name):
    """Covers BOM, CRLF, blank lines, trailing empty cells, no final newline, and a 1 MB line."""
    long = "soup " * 200_000
    text = f"\ufefftext\tlabel\r\ngood\tyes\t\t\r\n\r\n{long}\tno"
    rows = read(text.replace("\t", "," if name.endswith("csv") else "\t"), name)
    assert [x[:2] for x in rows] == [("good", "yes"), (long, "no")]


BAD = {
    "only one column": (b"no second column", "found 1 column, expected label in column 2"),
    "an unquoted comma": (b"good\tand\tyes", "found 3 columns, expected 2"),
    "no text": (b" \tyes", "text is empty"),
    "no label": (b"good\t ", "label is empty"),
    "NUL": (b"go\0od\tyes", "NUL"),
    "latin-1": (b"caf\xe9\tyes", "UTF-8 .*0xe9"),
}


@pytest.mark.parametrize(("row", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ["data.tsv", "data.csv"])
def test_bad_rows_raise_an_error_or_are_counted(read, name, row, message):
    data = b"text\tlabel\ngood\tyes\n" + row + b"\nbad\tno\n" + row + b"\n"
    data = data.replace(b"\t", b"," if name.endswith("csv") else b"\t")
    with pytest.raises(bert_tf.UserError, match=rf"{name}, line 3: .*{message}.*`skip_bad_rows`"):
        read(data, name)
    bad = BadRows(skip=True)
    # The other rows keep their row numbers.
    assert [(x[0], x[2]) for x in read(data, name, bad)] == [("good", "0"), ("bad", "2")]
    assert bad.count == 2
    assert f"{name}, line 3: " in bad.first


def test_only_csv_has_quotes(read, caplog):
    rows = read('text,label\n"good, ""very""\nsoup",yes\nbad,"no"\n', "data.csv")
    assert [x[:2] for x in rows] == [('good, "very"\nsoup', "yes"), ("bad", "no")]
    rows = read('"good\tyes\n"b""a""d"\t"no"\n')
    assert [x[:2] for x in rows] == [('"good', "yes"), ('"b""a""d"', '"no"')]
    assert "texts in quotes" in caplog.text


def test_bad_rows_of_csv_are_named_by_their_first_line(read):
    text = 'text,label\n"two\nlines",yes\n"good" soup,no\nbad,no\n'
    with pytest.raises(bert_tf.UserError, match=r"data\.csv, line 4: not comma-separated"):
        read(text, "data.csv")
    assert [x[0] for x in read(text, "data.csv", BadRows(skip=True))] == ["two\nlines", "bad"]
    with pytest.raises(bert_tf.UserError, match=r"data\.csv, line 3: .*unexpected end of data"):
        read('text,label\ngood,yes\n"bad,no\nsoup,no\n', "data.csv")


@pytest.mark.parametrize("score", ["nan", "inf", "1e39", "1_0", "much", ""])
def test_scores_are_finite_numbers(read, score):
    text = f"text\tlabel\ngood\t 4.5\nbad\t{score}\n"
    with pytest.raises(bert_tf.UserError, match=f"line 3: .*score is '{score}', "):
        read(text, task_type="regression")
    assert read(text, task_type="regression", bad=BadRows(skip=True)) == [("good", 4.5, "0")]


def test_several_labels_in_one_cell(read):
    text = "text\tlabel\ngood\thot; salty\nbad\t\nsoup\tsalty\n"
    rows = read(text, task_type="multi_label", separator=";")
    assert [x[1] for x in rows] == [("hot", "salty"), (), ("salty",)]


def test_several_labels_in_columns(read):
    text = "text\tsalty\thot\ngood\t1\t0\nbad\t1\t1\nsoup\t0\t0\n"
    options = {"task_type": "multi_label", "label": ("salty", "hot")}
    assert [x[1] for x in read(text, **options)] == [("salty",), ("salty", "hot"), ()]
    # Columns keep the given order, even if a label is never 1.
    layout = Layout(label=("salty", "hot"))
    assert custom_dataset("multi_label", None, layout).labels == ("salty", "hot")
    rows = read(text, labels=("s", "h"), **options)
    assert [x[1] for x in rows] == [("s",), ("s", "h"), ()]
    with pytest.raises(bert_tf.UserError, match=r"line 2: .*label hot.*'2'"):
        read("text\tsalty\thot\ngood\t1\t2\n", **options)


@pytest.mark.parametrize(
    ("task_name", "data", "message"),
    [
        ("mrpc", b"h\n1\t2\t3\ta\n", "line 2: found 4 columns, .* 5"),
        ("cola", b"gj04\t1\t\n", "line 1: found 3 columns, .* 4"),
        ("cola", b"", "no examples"),
        ("cola", b"gj04\t1\t\t\xff\n", "line 1: .*UTF-8"),
    ],
)
def test_bad_rows_of_glue(tmp_path, task_name, data, message):
    (tmp_path / "train.tsv").write_bytes(data)
    with pytest.raises(bert_tf.UserError, match=rf"train\.tsv.*{message}"):
        read_examples(find_task(task_name), str(tmp_path), "train")
