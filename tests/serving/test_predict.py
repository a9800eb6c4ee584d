"""predict.py: lines in, answers out, in their order, whatever stands in a line."""

import io
import json
import os
import signal
import subprocess
import sys
import types

import keras
import pytest
import scripts_alone
import tensorflow as tf
from test_modeling import TINY
from test_scripts import WORDS

import bert_tf
from bert_tf import serving, tasks
from bert_tf.tasks.numbers import Number


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a classifier, m, and a chooser, c."""
    folder = tmp_path_factory.mktemp("predict")
    export_classifier(folder)
    settings = tasks.choice.ChoiceSettings(12, True, TINY, str(folder / "vocab.txt"))
    options = serving.Options(warm_up=False)
    chooser = serving.chooser(bert_tf.BertMultipleChoice(TINY), settings, options)
    serving.export(chooser, f"{folder}/c")
    return folder


def export_classifier(folder):
    """Writes m, a classifier of single texts with two numbers, whose weights are always alike."""
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    numbers = (Number("x", 1.0, 2.0), Number("y", 0.0, 1.0))
    settings = tasks.Settings(("no", "yes"), 12, True, TINY, str(folder / "vocab.txt"),
                              "classification", numbers, num_texts=1)  # fmt: skip
    keras.utils.set_random_seed(0)
    model = bert_tf.BertClassifier(TINY, 2, num_numeric_features=2)
    model.trainable_weights[-2].assign_add(tf.random.normal(model.trainable_weights[-2].shape))
    options = serving.Options(warm_up=False)
    serving.export(serving.classifier(model, settings, options), f"{folder}/m")


@pytest.fixture
def run(root, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("predict") as run_script:

        def start(*flags):
            run_script("predict", *flags)
            return capsys.readouterr().out

        yield start


def test_lines_are_answered_in_their_order(run, models, tmp_path):
    lines = [f"{' '.join('abcdefghij'[: 1 + i % 10])}\t{i}\t0.5" for i in range(50)]
    (tmp_path / "in.tsv").write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    run(f"--model={models}/m", f"--input_file={tmp_path}/in.tsv", "--batch_size=7",
        f"--output_file={tmp_path}/out.jsonl")  # fmt: skip
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    predictor = serving.Predictor(f"{models}/m")
    assert predictor.inputs == ("text", "numbers") and len(found) == 50
    for line, answer in zip(lines, found, strict=True):
        text, *numbers = line.split("\t")
        (alone,) = predictor([{"text": text, "numbers": list(map(float, numbers))}])
        assert alone["label"] == answer["label"]
        for label in ("no", "yes"):
            assert answer["probabilities"][label] == pytest.approx(
                alone["probabilities"][label], abs=2e-6
            )
    assert len({answer["probabilities"]["no"] for answer in found}) > 15


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a", "1 inputs, text <tab> numbers was expected"),
        ("a\t1", "numbers: 2 numbers were expected"),
        ("a\t1\t2\t3", "numbers: 2 numbers were expected"),
        ("a\tx\t2", "could not convert string to float: 'x'"),
        ("a\tnan\t2", "numbers: one is not finite"),
        ("", "1 inputs"),
    ],
)
def test_a_line_that_cannot_be_answered_says_why(run, models, tmp_path, line, said):
    path = tmp_path / "in.tsv"
    path.write_text(f"b\t1\t2\n{line}\nc\t3\t4\n")
    with pytest.raises(bert_tf.UserError, match="1 lines could not be answered"):
        run(f"--model={models}/m", f"--input_file={path}", f"--output_file={tmp_path}/out")
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert found[1]["error"].startswith("line 2: ") and said in found[1]["error"]
    assert "label" in found[0] and "label" in found[2]


def test_objects_and_endings(run, models, tmp_path):
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
    with pytest.raises(bert_tf.UserError, match="5 lines could not"):
        run(f"--model={models}/c", f"--input_file={tmp_path}/in", "--json",
            f"--output_file={tmp_path}/out")  # fmt: skip
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [len(row.get("probabilities", ())) for row in found] == [3, 0, 0, 0, 0, 0, 2]
    (tmp_path / "in").write_text("a\tb\na\tb c\td\n")
    out = run(f"--model={models}/c", f"--input_file={tmp_path}/in")
    assert [len(json.loads(line)["probabilities"]) for line in out.splitlines()] == [1, 2]


def test_it_stays_up_while_lines_come(root, models, request):
    """A line that is piped in is answered at once; a reader that goes away ends it."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    # A shell lets what it starts in the background ignore Ctrl-C, which processes inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with subprocess.Popen(
        [sys.executable, str(root / "predict.py"), f"--model={models}/m"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        for number in range(3):
            process.stdin.write(f"a b\t{number}\t1\n".encode())
            process.stdin.flush()
            assert "label" in json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        said = process.stderr.read().decode()
    assert "predict.py: interrupted" in said and "Fatal Python error" not in said


def test_nothing_to_read(run, models, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(bert_tf.UserError, match="--input_file must be given"):
        run(f"--model={models}/m")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(bert_tf.UserError, match="is no folder that export_model"):
        run("--model=nowhere")


def test_the_benchmark_tokenizes_as_the_model_says(root, monkeypatch, tmp_path, capsys):
    """A model that is cased and shorter than most; transformers is not what is tried."""
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS, "A", "B"]) + "\n")
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), "vocab_size": len(WORDS) + 2})
    settings = tasks.Settings(("no", "yes"), 6, False, config, str(tmp_path / "vocab.txt"),
                              "classification", num_texts=1)  # fmt: skip
    keras.utils.set_random_seed(0)
    model = bert_tf.BertClassifier(config, 2)
    for weight in model.trainable_weights:
        weight.assign_add(tf.random.normal(weight.shape, stddev=0.3))
    options = serving.Options(warm_up=False)
    serving.export(serving.classifier(model, settings, options), f"{tmp_path}/m")
    (tmp_path / "lines").write_text("A b A\nB B B B B B B B B a\n")

    def pipeline(lines, max_length, **options):
        assert max_length == 6
        return [[{"label": "no", "score": 0.5}, {"label": "yes", "score": 0.5}] for _ in lines]

    fake = types.SimpleNamespace(pipeline=lambda *args, **kwargs: pipeline)
    monkeypatch.setitem(sys.modules, "transformers", fake)
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    with scripts_alone.imported("predicting") as run_script:
        run_script("predicting", f"--model={tmp_path}/m", "--peer=x", "--turns=1",
                   f"--input_file={tmp_path}/lines")  # fmt: skip
    _, padded, theirs = capsys.readouterr().out.splitlines()
    assert padded.startswith("padded to 6") and float(padded.split()[-1]) < 1e-5
    assert float(theirs.split()[-1]) > 1e-3
