"""`Predictor` and predict.py answer lines in order, whatever a line contains."""

import io
import json
import random
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import serving
from bert_tf.serving.predictor import METADATA
from tests.serving.serving_models import rows_of

datasets, pd = pytest.importorskip("datasets"), pytest.importorskip("pandas")


FRAME, TEXT, CHOICE = pd.DataFrame, {"text": "a b"}, {"context": "a", "endings": ["b", "c"]}
NUMBERS = {**TEXT, "numbers": [1.0, 2.5]}
# By task: forms of the same row, and the input to be named with its invalid values.
ROWS = {
    "multi_label": (
        [[TEXT], TEXT, ["a b"], [b"a b"], np.array(["a b"]), {"text": ["a b"]}, FRAME([TEXT]),
         FRAME([{"id": 3, **TEXT}]), datasets.Dataset.from_list([TEXT])],
        "text", [None, 3, ["a", "b"], float("nan"), "\ud800"],
    ),
    "classification": (
        [[NUMBERS], NUMBERS, FRAME([NUMBERS]), FRAME([{**TEXT, "x": 1, "y": 2.5}]),
         [{**TEXT, "numbers": np.array([1, 2.5])}]],
        "numbers", [[1.0, None], [1], [1, 2, 3], 5, None, ["1", "2"], [1, float("nan")]],
    ),
    "multiple_choice": (
        [[CHOICE], CHOICE, FRAME([CHOICE]), [{"context": "a", "endings": ("b", "c")}]],
        "endings", [["b", None], None, [], "bc", [["b"]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", ROWS)
def test_rows_in_python(task, exported):
    predictor, (forms, name, values) = exported(task), ROWS[task]
    (first,), *others = map(predictor, [*forms, iter(forms[0])])
    assert others == [[first]] * len(others)
    rows = [{"unknown": "a"}, *({**forms[0][0], name: value} for value in values)]
    for row in rows:
        with pytest.raises(bert_tf.UserError, match=f"`rows`: row 1: .*{name}"):
            predictor([forms[0][0], row])
    with pytest.raises(bert_tf.UserError, match="`rows`"):  # it would answer each character
        predictor("a b")


LINES = {
    "classification": {
        "b\t1\t2": None,
        "a": "text <tab> numbers",
        "a\t1\t2\t3": "numbers: .* 2 finite",
        "a\tx\t2": "'x'",
        '{"text": "b", "numbers": [1, 2.5]}': None,
        '{"text": "b", "numbers": [1, 1e400]}': "numbers: found .*inf",
    },
    "multiple_choice": {
        "a\tb": None,
        '{"context": "a", "endings": ["b", "c", "d"]}': None,
        '{"context": "a", "endings": []}': "endings: ",
        '{"context": "a", "endings": "bc"}': "endings: ",
        '{"context": "\\ud800", "endings": ["b"]}': "context: .*ud800",
        '{"context": "a"}': "context, endings",
        "[" * 100_000: ".",
    },
}


@pytest.mark.parametrize("task", LINES)
def test_invalid_lines(task, exported):
    for line, message in LINES[task].items():
        if message is None:
            assert exported(task).read(line, as_json=line.startswith("{"))
        else:
            with pytest.raises(ValueError, match=message):
                exported(task).read(line, as_json=line.startswith(("{", "[")))


def test_invalid_lines_are_answered_with_an_error(run_script, exported, tmp_path, capsys):
    lines = [line for line in LINES["multiple_choice"] if line.startswith(("{", "["))]
    (tmp_path / "in").write_text("\n".join([*lines, lines[0]]))
    model = f"--model={exported('multiple_choice').path}"
    with pytest.raises(bert_tf.UserError, match="5 lines"):
        run_script("predict.py", model, f"--input_file={tmp_path}/in", "--json", "--batch_size=2",
                   f"--output_file={tmp_path}/out")  # fmt: skip
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [len(row.get("probabilities", ())) for row in answers] == [3, 0, 0, 0, 0, 0, 3]
    assert answers[1]["error"].startswith("line 2: endings")
    assert answers[5]["error"].startswith("line 6: not JSON (")
    (tmp_path / "in").write_text("a\tb\na\tb c\td\n")
    run_script("predict.py", model, f"--input_file={tmp_path}/in")
    out = capsys.readouterr().out
    assert [len(json.loads(line)["probabilities"]) for line in out.splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"inputs": ["text", "x"]}, "/1 cannot be loaded .*x"),
     ({"inputs": []}, "/1.*with inputs=text"),
     ({"labels": ["x"]}, "2 labels, .* 1 "),
     ("no JSON", "model.json"),
     (None, "/1 cannot be loaded")],
)  # fmt: skip
def test_damaged_models(exported, tmp_path, changes, message):
    """The model.json is invalid or does not match, or half of the variables are missing."""
    folder = shutil.copytree(exported("classification").path, tmp_path / "1")
    path = folder / METADATA
    if isinstance(changes, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    elif changes:
        path.write_text(changes)
    else:
        data = folder / "variables/variables.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(bert_tf.UserError, match=message):
        serving.Predictor(str(tmp_path))(rows_of("classification"))


def test_without_input_or_model(run_script, exported, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(bert_tf.UserError, match="--input_file"):
        run_script("predict.py", f"--model={exported('classification').path}")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for folder, message in (("nowhere", "nowhere is neither"), (tmp_path, f".* in {tmp_path}")):
        with pytest.raises(bert_tf.UserError, match=f"--model: {message}"):
            run_script("predict.py", f"--model={folder}")


def test_batches_have_fewer_rows_of_longer_texts():
    """Answers keep the order of the rows, and an explicit batch size is used."""
    sizes = []

    def serve(columns):
        sizes.append(len(columns["text"]))
        return {"lengths": tf.strings.length(columns["text"])}

    predictor = serving.Predictor(serving.Servable("other", None, serve, None))
    predictor._serve = serve
    rows = [{"text": "a" * length} for length in [20] * 600 + [200] * 100 + [20_000] * 40]
    random.Random(0).shuffle(rows)
    answers = predictor(rows)
    assert [x["lengths"] for x in answers] == [len(row["text"]) for row in rows]
    assert sizes == [256, 256, 88, 56, 44, 32, 8]
    sizes.clear()
    predictor(rows, batch_size=100)
    assert sizes == [100] * 7 + [40]
