"""Numeric features as a vector next to the pooled output and as words, from file to model."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.columns import Layout
from bert_tf.tasks.classification.examples import Example, measure_numbers, normalize
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.options import NumericFeature
from bert_tf.tasks.classification.source import FileSource
from tests.common import QUICK_RUN, read_data, read_examples, read_table, write_files, write_model
from tests.tasks.task_helpers import SMALL


def test_normalization(caplog):
    """Covers times in seconds, and a constant column whose float deviation is not exactly 0."""
    times = [1.7e9, 1.7e9 + 60, 1.7e9 + 120] * 40
    examples = [Example("", "a", numbers=(x, 0.7)) for x in times]
    assert np.std([0.7] * 120) != 0
    features = measure_numbers(("time", "same"), examples)
    assert "`numeric_columns`: same has only one value" in caplog.text
    assert features[0] == NumericFeature("time", 1.7e9 + 60, pytest.approx(np.sqrt(2400)))
    values = np.array([normalize(example.numbers, features) for example in examples])
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(0), [1, 0], atol=1e-9)
    np.testing.assert_allclose(normalize((1.7e9 + 60, 0.8), features), [0, 0.1], atol=1e-9)
    tensor = normalize(tf.constant([[1.7e9 + 120, 0.7]], tf.float64), features)
    np.testing.assert_allclose(tensor, [[60 / np.sqrt(2400), 0]], atol=1e-9)


def test_rows_that_are_left_out_are_not_measured(tmp_path):
    train, dev = "text,label,x\na,x,1\na,y,3\na,z,100000\n", "x,text,label\n4,a,y\n"
    folder = write_files(tmp_path, train__csv=train, dev__csv=dev)
    dataset = custom_dataset(labels=("x", "y"), layout=Layout(numbers=("2",)))
    source = FileSource(dataset, folder)  # dev.csv has the column with the same name elsewhere
    data = read_data(source, ["train", "dev"], skip_bad_rows=True)
    assert data.numeric_features == (NumericFeature("x", 2.0, 1.0),)
    assert data.examples["dev"][0].numbers == (4.0,)


def test_as_words(tmp_path):
    folder = write_files(tmp_path, test__csv="text,x,y\na b,101,2\n")
    dataset = custom_dataset(layout=Layout(numbers=("x", "y"), numeric_as="text"))
    (example,) = read_examples(dataset, folder, "test")
    assert example.text_a == "x: 101, y: 2. a b"
    assert example.numbers == (101.0, 2.0)


# Both labels have the same texts, so only x can predict the label.
ROWS = [("a b", 100, 2), ("c d", 102, 2), ("a b", 300, 2), ("c d", 304, 2)] * 5


@pytest.mark.slow
def test_a_run_with_a_vector(run_script, tmp_path):
    lines = [f"{text},{x},{y},{'far' if x > 200 else 'near'}" for text, x, y in ROWS]
    text = "\n".join(["text,x,y,label", *lines]) + "\n"
    test = "text,x,y\na b,101,2\na b,301,2\n"
    write_files(tmp_path, train__csv=text, dev__csv=text, test__csv=test)
    out = tmp_path / "out"
    flags = [f"--data_dir={tmp_path}", "--task_name=tsv", f"--output_dir={out}"]
    model = [*write_model(tmp_path, **SMALL), *QUICK_RUN]
    train = [*flags, "--do_train", "--numeric_columns=x,y", *model, "--num_frozen_layers=1",
             "--num_train_epochs=20", "--learning_rate=3e-2"]  # fmt: skip
    run_script("run_classifier", *train)
    stored = json.loads((out / "classifier.json").read_text())
    assert stored["numeric_as"] == "vector"
    assert stored["numeric_features"][0]["name"] == "x"
    assert stored["numeric_features"][0]["mean"] == 201.5
    # The folder stores the columns and their normalization.
    run_script("run_classifier", *flags, "--do_predict")
    assert [row[1] for row in read_table(out / "test_predictions.tsv")[1:]] == ["near", "far"]

    with pytest.raises(bert_tf.UserError, match="numeric features"):
        bert_tf.checkpoints.convert(str(out), str(tmp_path / "hf"), "hugging_face")

    for more, message in (
        (["--do_eval", "--numeric_columns=y"], "--numeric_columns=y: .*x,y"),
        (["--do_eval", "--numeric_as=text"], "--output_dir.* numeric_as .*vector.*text"),
        (["--do_train", *model], "--output_dir.* numeric_columns .*x, y.*none"),
        (["--do_train", *model, "--numeric_as=text"], "--numeric_as requires --numeric_columns"),
        (["--do_train", *model, "--numeric_columns=z"], r"train\.csv, line 1: .*'z'"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run_script("run_classifier", *flags, *more)
