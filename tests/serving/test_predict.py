"""`Predictor` and predict.py answer lines in order, whatever a line contains."""

import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf import configs, serving
from bert_tf.serving.predictor import METADATA, BasePredictor
from tests.serving import serving_models
from tests.serving.serving_models import rows_of


def test_lines_are_answered_in_order(run_predict, classifier, predictor, tmp_path):
    lines = [f"{' '.join('abcdefghij'[: 1 + i % 10])}\t{i}\t0.5" for i in range(50)]
    (tmp_path / "in.tsv").write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    run_predict(f"--model={classifier}", f"--input_file={tmp_path}/in.tsv", "--batch_size=7",
                f"--output_file={tmp_path}/out.jsonl")  # fmt: skip
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert predictor.inputs == ("text", "numbers") and len(answers) == 50
    for line, answer in zip(lines, answers, strict=True):
        text, *numbers = line.split("\t")
        (alone,) = predictor([{"text": text, "numbers": list(map(float, numbers))}])
        assert alone["label"] == answer["label"]
        for label in ("no", "yes"):
            assert answer["probabilities"][label] == pytest.approx(
                alone["probabilities"][label], abs=2e-6
            )
    assert len({answer["probabilities"]["no"] for answer in answers}) > 15


def test_invalid_lines_are_answered_with_an_error(run_predict, classifier, tmp_path):
    invalid = {
        "a": "1 input, .* text <tab> numbers",
        "a\t1": "numbers: .* 2 finite numbers",
        "a\t1\t2\t3": "numbers: .* 2 finite numbers",
        "a\tx\t2": "'x'",
        "a\tnan\t2": "numbers: found nan",
        "": "1 input,",
    }
    path = tmp_path / "in.tsv"
    path.write_text("\n".join(["b\t1\t2", *invalid, "c\t3\t4"]))
    with pytest.raises(bert_tf.UserError, match="6 lines"):
        run_predict(f"--model={classifier}", f"--input_file={path}",
                    f"--output_file={tmp_path}/out")  # fmt: skip
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    first, *errors, last = answers
    assert "label" in first and "label" in last
    for number, (answer, message) in enumerate(zip(errors, invalid.values(), strict=True), 2):
        with pytest.raises(ValueError, match=rf"^line {number}: .*{message}"):
            raise ValueError(answer["error"])


def test_rows_in_python(vocab_file):
    """A model with one input accepts a list of texts; errors describe the expected rows."""
    sentences, pairs = (
        serving.ServablePredictor(
            serving_models.make_servable(task, vocab_file, configs.ServingConfig())
        )
        for task in ("token_classification", "multiple_choice")
    )
    assert sentences(["a b", b"c"]) == sentences([{"text": "a b"}, {"text": "c"}])
    for model, rows, message in [
        (sentences, "a b", "`rows`: found a single str, expected a list of rows"),
        (sentences, [1], "row 0: found 1, expected a text or a dict with text"),
        (sentences, ["a", {"texts": "a"}], "row 1: found texts, .* dict with text"),
        (sentences, ["a b c", "\ud800"], "row 1, text: .* lone surrogate"),
        (pairs, ["a"], "row 0: found 'a', expected a dict with context, endings"),
        (pairs, [{"context": "a", "endings": ["b", "\ud800"]}], "row 0, endings: .* lone surrog"),
    ]:
        with pytest.raises(bert_tf.UserError, match=message):
            model(rows)


def test_objects_and_endings(run_predict, exported, tmp_path):
    rows = [
        '{"context": "a", "endings": ["b", "c", "d"]}',
        '{"context": "a", "endings": []}',
        '{"context": "a", "endings": "bc"}',
        '{"context": "\\ud800", "endings": ["b"]}',
        '{"context": "a"}',
        "[" * 100_000,
        '{"context": "a", "endings": ["b", "c"]}',
    ]
    (tmp_path / "in").write_text("\n".join(rows))
    model = f"--model={exported('multiple_choice').path}"
    with pytest.raises(bert_tf.UserError, match="5 lines"):
        run_predict(model, f"--input_file={tmp_path}/in", "--json",
                    f"--output_file={tmp_path}/out")  # fmt: skip
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [len(row.get("probabilities", ())) for row in answers] == [3, 0, 0, 0, 0, 0, 2]
    (tmp_path / "in").write_text("a\tb\na\tb c\td\n")
    out = run_predict(model, f"--input_file={tmp_path}/in")
    assert [len(json.loads(line)["probabilities"]) for line in out.splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("task", "old_name"),
    [pytest.param("question_answering", "answers", marks=pytest.mark.slow),
     ("token_classification", "tagging"),
     pytest.param("fill_mask", "masked_words", marks=pytest.mark.slow),
     ("multiple_choice", "choice"),
     pytest.param("sentence_embedding", "vectors", marks=pytest.mark.slow)],
)  # fmt: skip
def test_models_of_version_0_1_have_the_same_answers(task, old_name, exported, tmp_path):
    """Their model.json has the old task names."""
    predictor, rows = exported(task), rows_of(task)
    text = pathlib.Path(predictor.path, METADATA).read_text()
    path = tmp_path / "model.json"
    path.write_text(text.replace(f'"task": "{task}"', f'"task": "{old_name}"'))
    assert json.loads(path.read_text())["task"] == old_name
    metadata = serving.read_metadata(str(path))
    assert metadata["task"] == task
    old = BasePredictor(predictor.inputs, 0, metadata, 32)
    old._run = predictor._run
    assert old(rows) == predictor(rows)


def test_predictor_loads_a_model_of_version_0_1(exported, tmp_path):
    predictor, rows = exported("multiple_choice"), rows_of("multiple_choice")
    shutil.copytree(predictor.path, tmp_path / "1")
    path = tmp_path / "1" / METADATA
    path.write_text(path.read_text().replace('"multiple_choice"', '"choice"'))
    answers = serving.Predictor(str(tmp_path))(rows)
    assert answers == predictor(rows) and answers[0]["choice"] in (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"inputs": ["text", "x"]}, "found the inputs numbers, text in {}, expected text, x as in"),
     ({"task": "fill_mask"}, "{} has the outputs label, .* expected words for the task fill_mask"),
     (None, "{} cannot be loaded")],
)  # fmt: skip
def test_damaged_models(predictor, tmp_path, changes, message):
    """The model.json does not match, or half of the variables are missing."""
    folder = shutil.copytree(predictor.path, tmp_path / "1")
    path = folder / METADATA
    if changes:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    else:
        data = folder / "variables/variables.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(bert_tf.UserError, match=message.format(f"{tmp_path}/1")):
        serving.Predictor(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[]", '{"task": 1, "inputs": []}', None, "[" * 100_000,
     '{"task": "classification", "inputs": ["text"], "labels": 7}'],
)  # fmt: skip
def test_invalid_metadata(text, tmp_path):
    if text is not None:
        (tmp_path / "model.json").write_text(text)
    with pytest.raises(bert_tf.UserError, match=f"{tmp_path}/model.json"):
        serving.read_metadata(f"{tmp_path}/model.json")


@pytest.mark.slow
def test_predict_stays_up(root, classifier, request):
    """The process answers each piped line immediately, and Ctrl-C ends it.

    test_line_flags.py tests this without TensorFlow.
    """
    # Background processes of a shell ignore Ctrl-C, and child processes inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with subprocess.Popen(
        [sys.executable, str(root / "predict.py"), f"--model={classifier}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        for number in range(3):
            process.stdin.write(f"a b\t{number}\t1\n".encode())
            process.stdin.flush()
            assert "label" in json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        stderr = process.stderr.read().decode()
    assert "predict.py: interrupted" in stderr and "Fatal Python error" not in stderr


def test_without_input_or_model(run_predict, classifier, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(bert_tf.UserError, match="--input_file"):
        run_predict(f"--model={classifier}")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for folder in ("nowhere", str(tmp_path)):
        with pytest.raises(bert_tf.UserError, match=f"--model: .* in {folder}"):
            run_predict(f"--model={folder}")


def test_batches_have_fewer_rows_of_longer_texts():
    """Answers keep the order of the rows, and an explicit batch size is used."""
    sizes = []

    class Recorder(BasePredictor):
        def _run(self, columns):
            sizes.append(len(columns["text"]))
            return {"lengths": np.array([len(text) for text in columns["text"]])}

    predictor = Recorder(["text"], 0, {"task": "other"}, None)
    rows = [{"text": "a" * length} for length in [20] * 600 + [200] * 100 + [20_000] * 40]
    random.Random(0).shuffle(rows)
    answers = predictor(rows)
    assert [x["lengths"] for x in answers] == [len(row["text"]) for row in rows]
    assert sizes == [256, 256, 88, 56, 44, 32, 8]
    sizes.clear()
    predictor(rows, batch_size=100)
    assert sizes == [100] * 7 + [40]
