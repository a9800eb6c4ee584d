"""Tables get columns of predictions, from a model that looks for the letter x."""

import gzip
import json

import pytest
import tensorflow as tf

import bert_tf
from bert_tf.cli.lines import answer_table, open_table
from bert_tf.serving.exporting import Servable, string_specs
from bert_tf.serving.predictor import Predictor


class Fake(Predictor):
    """Answers "yes" if the first text has an x; `rows` records the inputs."""

    def __init__(self, *inputs, task="classification", **metadata):
        metadata = {"labels": ["no", "yes"], **metadata}
        self.rows, signature = [], string_specs(*inputs)
        if "numbers" in inputs:
            signature["numbers"] = tf.TensorSpec((None, 2), tf.float64)
        super().__init__(Servable(task, None, self._find_x, None, signature, metadata=metadata))
        self._serve = self._serve_one = self._find_x

    def __call__(self, rows):
        self.rows += [tuple(row[name] for name in self.inputs) for row in rows]
        return super().__call__(rows)

    def _find_x(self, columns):
        texts = columns[self.inputs[0]].numpy()
        p = tf.constant([0.75 if b"x" in text else 0.25 for text in texts])
        if self.metadata["task"] == "regression":
            return {"score": p, "logits": p[:, None]}
        return {"probabilities": tf.stack([1 - p, p], 1)}


@pytest.fixture
def answer(tmp_path):
    """Return a function of (file name, content, model) that returns the table with predictions."""

    def answer(name, data, model, output=None, **options):
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        table = open_table(model, str(tmp_path / name), **options)
        if table is None:
            return None
        answer_table(model, table, str(tmp_path / (output or f"out_{name}")), None)
        return (tmp_path / (output or f"out_{name}")).read_bytes()

    return answer


REVIEWS = {"text_columns": ["review"], "label_column": ["stars"]}


def test_csv(answer, tmp_path, caplog):
    model = Fake("text", columns=REVIEWS)
    text = 'nr;review\n1;"a; x"\n2;"b ""c"""\n'
    assert answer("a.csv", text, model, delimiter="semicolon").decode() == (
        "nr;review;prediction;probability_no;probability_yes\n"
        '1;"a; x";yes;0.25;0.75\n'
        '2;"b ""c""";no;0.75;0.25\n'
    )
    assert answer("a.csv", "text,n\nx,1\n", Fake("text")).startswith(b"text,n,prediction,")
    expected, printed = "a,no,0.75,0.25\nx,yes,0.25,0.75\n", []
    assert answer("a.csv", "a\nx\n", Fake("text"), header="no").decode() == expected
    table = open_table(model, str(tmp_path / "a.csv"), header="no")
    answer_table(model, table, None, printed.append)
    assert printed == [expected]
    data = "body,n,m\nx,007,NA\n,,\n"
    assert b"x,007,NA,yes," in answer("a.csv", data, model, text_columns=["body"])
    assert "line 3: text is empty" in caplog.text


def test_other_kinds(answer):
    model = Fake("text", columns=REVIEWS)
    objects = [{"nr": 1, "review": "x", "more": [None]}, {"review": "\u00e4", "nr": None}]
    expected = [
        {**row, "prediction": label, "probabilities": {"no": 1 - p, "yes": p}}
        for row, label, p in zip(objects, ("yes", "no"), (0.75, 0.25), strict=True)
    ]
    out = answer("a.jsonl", "\n".join(map(json.dumps, objects)), model)
    assert [json.loads(line) for line in out.decode().splitlines()] == expected
    assert json.loads(answer("a.json", json.dumps(objects), model)) == expected
    out = answer("a.tsv", 'review\tn\n"x\t1\n', model).decode()
    assert out.splitlines()[1] == '"x\t1\tyes\t0.25\t0.75'
    model = Fake("text", columns=REVIEWS, task="regression")
    assert answer("a.csv", "review\nx\n", model) == b"review,prediction\nx,0.75\n"
    model = Fake("text", columns={**REVIEWS, "label_separator": "; "}, task="multi_label")
    model.metadata["labels"] = ["a", "b"]
    assert b"x,b,0.25,0.75" in answer("a.csv", "review\nx\n", model)


def test_parquet(answer, tmp_path):
    pyarrow, parquet = (pytest.importorskip(x) for x in ("pyarrow", "pyarrow.parquet"))
    table = pyarrow.table({"review": ["x", "a"], "when": pyarrow.array([1, None], "timestamp[ms]")})
    parquet.write_table(table, tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    model = Fake("text", columns=REVIEWS)
    answer("a.parquet", data, model)
    out = parquet.read_table(tmp_path / "out_a.parquet")
    assert out.schema.field("when").type == table.schema.field("when").type
    assert out["prediction"].to_pylist() == ["yes", "no"]
    assert out["probability_yes"].to_pylist() == [0.75, 0.25]
    with pytest.raises(bert_tf.UserError, match=r"`output_file`.*parquet"):
        answer("a.parquet", data, model, output="out.csv")


def test_pairs_and_numbers(answer):
    model = Fake("text_a", "text_b", columns={"text_columns": ["5", "6"]})
    answer("sts-test.tsv", 'g\tf\ty\t1\t4.0\tA "x, y\tb\ng\tf\ty\t1\t4.0\ta\tb\ts\tt\n', model)
    assert sorted(model.rows) == [('A "x, y', "b"), ("a", "b")]
    model = Fake("text_a", "text_b")
    answer("a.csv", "sentence2,sentence1\nb,a\n", model)
    assert model.rows == [("a", "b")]
    model = Fake("text", "numbers", numbers=["age", "price"], columns=REVIEWS)
    answer("a.csv", "age,review,price\n35,x,2.5\n", model)
    assert model.rows == [("x", [35.0, 2.5])]
    model = Fake("text", numbers_in_text=["age", "price"], columns=REVIEWS)
    answer("a.csv", "age,review,price\n35,x, 2.50\n", model)
    assert model.rows == [("age: 35, price: 2.50. x",)]
    model = Fake("question", "context", task="question_answering")
    model._serve_one = lambda columns: {"answer": columns["context"]}
    assert answer("a.csv", "context,question\nc,q\n", model).endswith(b"c,q,c\n")


@pytest.mark.parametrize(
    ("name", "data", "inputs"),
    [
        ("lines.txt", "good, x\n{bad\n", ("text",)),
        ("lines", "a\tb\nc\td\n", ("text_a", "text_b")),
        ("lines", '{"review": "a"', ("text",)),
        ("lines", b"\xff\xfa\n", ("text",)),
        ("lines.txt", "message\nb\n", ("text",)),
    ],
)
def test_plain_lines_are_no_table(answer, name, data, inputs):
    assert answer(name, data, Fake(*inputs)) is None


@pytest.mark.parametrize(
    ("name", "data", "columns", "options"),
    [
        ("a.csv", "date,review\n1,x\n", REVIEWS, {}),
        ("a.csv", "foo,bar\n1,x\n", {}, {"text_columns": ["1"], "header": "yes"}),
        ("a.csv", "foo,x\n", {}, {"text_columns": ["1"]}),
        ("a.csv", "foo,x\n", {"text_columns": ["1"], "header": "no"}, {}),
        ("a.csv", "x,y\n", {"header": "no"}, {}),
        ("a.csv", "x\n", REVIEWS, {"header": "no"}),
        # Lines do not have column names.
        ("a.txt", "date\tMessage\n1\tx\n", {}, {"header": "yes", "text_columns": ["Message"]}),
        ("a.txt", "n\treview\n1\tx\n", REVIEWS, {"header": "yes"}),
        ("a.txt", "text\nx\n", {}, {"header": "yes"}),
        ("a.txt", '{"comment": "x"}\n', {}, {"header": "yes"}),
    ],
)
def test_headers(answer, name, data, columns, options):
    model = Fake("text", columns=columns)
    if name == "a.txt":
        with pytest.raises(bert_tf.UserError, match=r"found the column names .*`header=yes`"):
            answer(name, data, model)
    answer(name, data, model, **options)
    assert model.rows == [("x",)]


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("a.csv", "review\na\n", {"output": "out.tsv"}, r"`output_file`.* comma.* \.tsv"),
        ("a.csv", "b,x\n", {"text_columns": ["1"]}, "`header=yes` or `header=no`"),
        ("a.csv", "n,review\n", {"text_columns": ["x"]}, "line 1: found n, review, expected x;"),
        ("a.csv", "n,review\na,b\n", {"text_columns": ["n", "review"]}, "n, review, expected"),
        ("a.csv", "Name,Feedback,Stars\na,x,5\nb,x,1\n", {}, "`text_columns=NAME`.*`header=no`"),
        ("a.csv", "review,prediction\na,b\n", {}, "already has a column 'prediction'"),
    ],
)
def test_errors(answer, name, data, options, message):
    with pytest.raises(bert_tf.UserError, match=message):
        answer(name, data, Fake("text", columns=REVIEWS), **options)


def test_lines_of_json_by_column(tmp_path):
    model = Fake("text", "numbers", numbers=["age", "price"], columns=REVIEWS)
    expected = {"text": "x", "numbers": [35, 2.5]}
    line = '{"review": "x", "age": 35, "price": 2.5, "nr": 1}'
    assert model.read(line, as_json=True) == expected
    assert model.read(json.dumps({**expected, "nr": 1}), as_json=True) == expected
    with pytest.raises(ValueError, match=r"text, numbers \(or review, age, price\)"):
        model.read('{"review": "x"}', as_json=True)


def test_gzip_and_excel(answer, tmp_path):
    """The answers are not compressed; answers to Excel files are CSV."""
    model = Fake("text", columns=REVIEWS)
    packed = gzip.compress(b'{"review": "x"}\n')
    row = {"review": "x", "prediction": "yes", "probabilities": {"no": 0.25, "yes": 0.75}}
    assert json.loads(answer("a.jsonl.gz", packed, model, "out.jsonl")) == row
    with pytest.raises(bert_tf.UserError, match=r"are json lines; do not use \.gz"):
        answer("a.jsonl.gz", packed, model)
    book = pytest.importorskip("openpyxl").Workbook()
    for cells in (["nr", "review"], [1, "a, x"]):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    data = (tmp_path / "a.xlsx").read_bytes()
    expected = b'nr,review,prediction,probability_no,probability_yes\n1,"a, x",yes,0.25,0.75\n'
    assert answer("a.xlsx", data, model, "out.csv") == expected
    with pytest.raises(bert_tf.UserError, match=r"are comma-separated.* not use \.xlsx"):
        answer("a.xlsx", data, model)
