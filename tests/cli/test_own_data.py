"""run_classifier.py on custom files: saved columns, held-out rows, scores."""

import csv
import json

import numpy as np
import pytest

import bert_tf
from tests.common import read_results, read_table, write_files
from tests.tasks.conftest import make_run


@pytest.fixture
def run(run_script, tmp_path):
    """A function that runs run_classifier.py in `out`, with a tiny model if --do_train is given."""
    model = {"initializer_range": 0.2, "num_hidden_layers": 1}
    return make_run(run_script, "run_classifier", tmp_path, **model)


REVIEWS = "nr;review;stars\n" + "".join(f'{i};"a;{"bc"[i % 2]}";{i % 2}\n' for i in range(8))


@pytest.mark.slow
def test_columns_are_remembered(run, tmp_path):
    write_files(tmp_path, train__csv=REVIEWS, test__csv="nr,review\n7,a b\n", bare__txt="a b\nc\n",
                other__jsonl='{"body": "a"}\n')  # fmt: skip
    run("--do_train", f"--train_file={tmp_path}/train.csv", "--num_train_epochs=1",
        "--text_columns=review", "--label_column=stars", "--id_column=nr")  # fmt: skip
    stored = json.loads((tmp_path / "out" / "classifier.json").read_text())["columns"]
    assert stored == {"text_columns": ["review"], "label_column": ["stars"], "id_column": "nr"}
    log = run("--do_eval", f"--dev_file={tmp_path}/train.csv")
    assert "--text_columns=review, --label_column=stars, --id_column=nr" in log
    assert "columns nr (id), review (text), stars (label); 8 examples" in log
    # These files differ in delimiters, header and columns.
    run("--do_predict", f"--test_file={tmp_path}/test.csv")
    assert read_table(tmp_path / "out" / "test_predictions.tsv")[1][0] == "7"
    log = run("--do_predict", f"--test_file={tmp_path}/bare.txt")
    assert "found no column 'review'" in log and "2 examples" in log
    log = run("--do_predict", f"--test_file={tmp_path}/other.jsonl", "--text_columns=body",
              "--id_column=body")  # fmt: skip
    assert "using --text_columns=body, although the model was trained with review" in log


@pytest.mark.slow
def test_held_out_rows(run, tmp_path):
    write_files(tmp_path, train__csv=REVIEWS, changed__csv=REVIEWS.replace("a;b", "a;d"))
    data = [f"--train_file={tmp_path}/train.csv", "--text_columns=review", "--label_column=stars"]
    with pytest.raises(bert_tf.UserError, match="--data_dir or --dev_file must be given"):
        run("--do_train", "--do_eval", *data)
    log = run("--do_train", "--do_eval", *data, "--dev_fraction=0.25", "--num_train_epochs=1")
    assert "2 of 8 training rows held out for evaluation" in log
    results = read_results(tmp_path / "out" / "eval_results.txt")
    # A later run without the flag uses the same rows.
    log = run("--do_eval", data[0])
    assert f"reusing {tmp_path}/out/eval.tf_record" in log
    assert read_results(tmp_path / "out" / "eval_results.txt") == results
    run("--do_eval", f"--dev_file={tmp_path}/changed.csv")
    with pytest.raises(bert_tf.UserError, match="the held-out rows are not those"):
        run("--do_eval", f"--train_file={tmp_path}/changed.csv")
    with pytest.raises(bert_tf.UserError, match=r"--dev_fraction=0\.5: .* with 0\.25"):
        run("--do_eval", data[0], "--dev_fraction=0.5")
    # A resumed run does not train on them.
    with pytest.raises(bert_tf.UserError, match=r"different dev_split \(0\.25 .*, now none\)"):
        run("--do_train", *data)


@pytest.mark.slow
def test_from_a_file_to_a_file(run, run_script, tmp_path):
    """Columns are recognised and saved. The exported model finds them and predicts as the run."""
    write_files(tmp_path, train__csv=REVIEWS.replace("stars", "sentiment"))
    data = f"{tmp_path}/train.csv"
    run("--do_train", "--do_predict", f"--train_file={data}", f"--test_file={data}",
        "--num_train_epochs=2", "--learning_rate=0.01")  # fmt: skip
    stored = json.loads((tmp_path / "out" / "classifier.json").read_text())["columns"]
    assert stored == {"text_columns": ["review"], "label_column": ["sentiment"]}
    run_script("export_model", f"--model_dir={tmp_path}/out", f"--export_dir={tmp_path}/model",
               "--warm_up=false")  # fmt: skip
    run_script("bert_tf.cli.predict", f"--model={tmp_path}/model", f"--input_file={data}",
               f"--output_file={tmp_path}/answers.csv")  # fmt: skip
    header, *rows = csv.reader((tmp_path / "answers.csv").read_text().splitlines(), delimiter=";")
    assert header[:4] == ["nr", "review", "sentiment", "prediction"]
    expected = read_table(tmp_path / "out" / "test_results.tsv")
    found = np.float64([row[4:] for row in rows])
    np.testing.assert_allclose(found, np.float64(expected), atol=1e-5)
