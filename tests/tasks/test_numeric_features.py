"""Numbers beside the text: as words and beside the pooled output, from file to exported model."""

import json

import numpy as np
import pytest
import tensorflow as tf
from common import read_data
from test_run_classifier import SMALL, model, run, table  # noqa: F401
from test_scripts import WORDS, results
from test_tasks import write

import bert_tf
from bert_tf import tasks
from bert_tf.tasks import classification
from bert_tf.tasks.classification import NumericFeature


def test_numbers_are_brought_to_one_size(caplog):
    """Times in seconds, and a column of one value whose deviation is not 0 in floating point."""
    times = [1.7e9, 1.7e9 + 60, 1.7e9 + 120] * 40
    examples = [classification.Example("", "a", numbers=(x, 0.7)) for x in times]
    assert np.std([0.7] * 120) != 0
    found = numbers.measure(("time", "same"), examples)
    assert "same has but one value in the training set" in caplog.text
    assert found[0] == NumericFeature("time", 1.7e9 + 60, pytest.approx(np.sqrt(2400)))
    values = np.array([numbers.normalise(example.numbers, found) for example in examples])
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(0), [1, 0], atol=1e-9)
    np.testing.assert_allclose(numbers.normalise((1.7e9 + 60, 0.8), found), [0, 0.1], atol=1e-9)
    tensor = numbers.normalise(tf.constant([[1.7e9 + 120, 0.7]], tf.float64), found)
    np.testing.assert_allclose(tensor, [[60 / np.sqrt(2400), 0]], atol=1e-9)


def test_rows_that_are_left_out_are_not_measured(tmp_path):
    write(tmp_path, train__csv="text,label,x\na,x,1\na,y,3\na,z,100000\n")
    task = tasks.classification.custom_task(
        labels=("x", "y"), layout=tasks.classification.Layout(numbers=("x",))
    )
    source = tasks.classification.FileSource(task, str(tmp_path))
    data = read_data(source, ["train"], skip_bad_rows=True)
    assert data.numbers == (NumericFeature("x", 2.0, 1.0),)


# The texts say nothing; what decides is whether the numbers are far apart.
ROWS = [("a b", 100, 2), ("c d", 102, 2), ("a b", 300, 2), ("c d", 304, 2)] * 5


def with_numbers(folder, rows=ROWS):
    lines = [f"{text},{x},{y},{'far' if x > 200 else 'near'}" for text, x, y in rows]
    text = "\n".join(["text,x,y,label", *lines]) + "\n"
    write(folder, train__csv=text, dev__csv=text, test__csv="text,x,y\na b,101,2\na b,301,2\n")
    return [f"--data_dir={folder}", "--task_name=tsv", "--num_train_epochs=30",
            "--learning_rate=3e-2"]  # fmt: skip


def test_numbers_beside_the_pooled_output(run, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    data = [*with_numbers(tmp_path), "--num_frozen_layers=2", f"--output_dir={out}"]
    flags = [*data, "--do_train", "--do_eval", "--numeric_columns=x,y", *model(tmp_path), *SMALL]
    run("run_classifier", *flags)
    assert float(results(out / "eval_results.txt")["eval_accuracy"]) == 1.0
    settings = json.loads((out / "classifier.json").read_text())
    assert settings["numeric_as"] == "vector"
    assert settings["numbers"][0]["name"] == "x" and settings["numbers"][0]["mean"] == 201.5
    # The folder knows which numbers its model takes, and how they are normalised.
    said = run("run_classifier", *data, "--do_predict")
    assert [row[1] for row in table(out / "test_predictions.tsv")[1:]] == ["near", "far"]
    run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    assert (tmp_path / "export/1/assets.extra/numbers.txt").read_text() == "x\ny\n"
    serve = tf.saved_model.load(f"{tmp_path}/export/1").signatures["ids"]
    ids = tf.constant([[2, WORDS.index("a"), WORDS.index("b"), 3]] * 2)
    answer = serve(
        input_ids=ids,
        input_mask=tf.ones_like(ids),
        segment_ids=0 * ids,
        numbers=tf.constant([[101.0, 2.0], [301.0, 2.0]], tf.float64),
    )
    expected = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    with pytest.raises(bert_tf.UserError, match="has numeric features, which no class of"):
        bert_tf.checkpoints.convert(str(out), str(tmp_path / "hf"), "hugging_face")
    # The run goes on with other numbers, normalised as it began; the features are made again.
    with_numbers(tmp_path, [*ROWS[:-1], ("c d", 10**6, 2)])
    said = run("run_classifier", *flags)
    assert "train.tf_record is made: data changed since" in said
    assert json.loads((out / "classifier.json").read_text()) == settings
    train = ["--do_train", *model(tmp_path), *SMALL]
    for more, message in (
        (
            ["--do_eval", "--numeric_columns=y"],
            "--numeric_columns: y, but the model there has x, y",
        ),
        (["--do_eval", "--numeric_as=text"], "other numeric_as: vector there, text now"),
        (train, r"other numeric_columns: x, y there, none now"),
        ([*train, "--numeric_as=text"], "wants --numeric_columns"),
        ([*train, "--numeric_columns=z"], "no column `z`"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run("run_classifier", *data, *more)


def test_numbers_as_words(run, tmp_path):  # noqa: F811
    out, data = tmp_path / "out", with_numbers(tmp_path)
    words = [*WORDS, "x", "y", "2", "##0", "##2", "##4", "1", "3", ":", ".", ",", "##1"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    config = json.loads((tmp_path / "config.json").read_text())
    config.update(vocab_size=len(words), max_position_embeddings=20)
    (tmp_path / "config.json").write_text(json.dumps(config))
    run(
        "run_classifier", *data, "--do_train", "--do_eval", "--numeric_columns=x,y",
        "--numeric_as=text", "--learning_rate=3e-3", f"--output_dir={out}", *model(tmp_path),
        *SMALL, "--max_seq_length=20",
    )  # fmt: skip
    assert float(results(out / "eval_results.txt")["eval_accuracy"]) == 1.0
    run("run_classifier", *data, "--do_predict", f"--output_dir={out}")
    assert [row[1] for row in table(out / "test_predictions.tsv")[1:]] == ["near", "far"]
    layout = tasks.classification.Layout(numbers=("x", "y"), numeric_as="text")
    found = tasks.classification.read_examples(
        tasks.classification.custom_task(layout=layout), str(tmp_path), "test"
    )
    assert found[0].text_a == "x: 101, y: 2. a b"
    assert found[0].numbers == (101.0, 2.0)


@pytest.mark.parametrize("cell", ["", "much", "nan", "inf", "1_0"])
def test_numbers_that_are_none(tmp_path, cell):
    write(tmp_path, dev__csv=f"text,label,x\na,b,1\na,b,{cell}\n")
    task = tasks.classification.custom_task(layout=tasks.classification.Layout(numbers=("x",)))
    with pytest.raises(bert_tf.UserError, match=rf"dev.csv, line 3: x '{cell}' is no number"):
        tasks.classification.read_examples(task, str(tmp_path), "dev")
    bad = tsv.BadRows(skip=True)
    assert (
        len(tasks.classification.read_examples(task, str(tmp_path), "dev", bad=bad)) == 1
        and bad.count == 1
    )
