"""run_classifier.py and export_model.py: each type of task, and columns, from files to answers."""

import csv
import json

import numpy as np
import pytest

import bert_tf
from tests.common import read_results, read_table, write_files, write_mnli
from tests.tasks.conftest import make_run


@pytest.fixture
def run(run_script, tmp_path):
    """A function that runs run_classifier.py, see `make_run`."""
    model = {"initializer_range": 0.2, "num_hidden_layers": 1}
    return make_run(run_script, "run_classifier", tmp_path, **model)


@pytest.mark.slow
def test_mnli_and_its_diagnostic_set(run, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write_mnli(data)
    write_files(data, diagnostic__tsv="index\tsentence1\tsentence2\n0\ta\tb\n1\tc\td\n")
    run("--task_name=MNLI", f"--data_dir={data}", "--do_train", "--do_eval", "--do_predict",
        "--num_train_epochs=2", "--train_batch_size=1", "--dtype=float16", "--optimizer=lamb",
        "--layer_decay=0.9", "--num_frozen_layers=1", "--recompute", "--seed=3")  # fmt: skip
    checkpoint = bert_tf.checkpoints.ReleaseCheckpoint(f"{out}/model.ckpt-2")
    assert checkpoint.tensor("bert_tf/loss_scale") > 0
    assert checkpoint.tensor("bert_tf/seed").tobytes() == b"3"
    assert {x for x in checkpoint.shapes if "adam_m" in x and "layer_0" in x} == set()
    expected = {"eval_accuracy", "eval_loss", "global_step", "loss"}
    for suffix in ("", "_mismatched"):
        assert set(read_results(out / f"eval_results{suffix}.txt")) == expected
        header, row = read_table(out / f"test_predictions{suffix}.tsv")
        assert header == ["id", "prediction", "contradiction", "entailment", "neutral"]
        assert read_table(out / f"test_results{suffix}.tsv") == [row[2:]]
    # Prediction reads the model and its options from the folder.
    run("--task_name=ax", f"--data_dir={data}", "--do_predict")
    assert len(read_table(out / "test_results_ax.tsv")) == 2
    assert len(read_table(out / "test_results.tsv")) == 1  # the results of MNLI are kept


@pytest.mark.slow
def test_several_labels(run, tmp_path):
    """A CSV file has one column per label; the checkpoint with the best F1 answers."""
    rows = ["a b,1,0", "b a,1,0", "c d,0,1", "a d,1,1", '"e, e",0,0'] * 4
    text = "\n".join(["what,hot,salty", *rows]) + "\n"
    write_files(tmp_path, train__csv=text, dev__csv=text, test__csv='what\na b\n"e, e"\na d\n')
    out = tmp_path / "out"
    run(
        *(f"--{x}_file={tmp_path}/{x}.csv" for x in ("train", "dev", "test")),
        "--text_columns=what", "--label_column=hot,salty", "--task_type=multi_label", "--do_train",
        "--do_eval", "--do_predict", "--report", "--num_train_epochs=120", "--learning_rate=5e-3",
        "--eval_steps=300", "--best_metric=eval_f1_macro", "--label_separator=|",
    )  # fmt: skip
    results = read_results(out / "eval_results.txt")
    assert float(results["eval_accuracy"]) == float(results["eval_f1_macro"]) == 1.0
    assert "salty     1.0000    1.0000    1.0000" in (out / "eval_report.txt").read_text()
    header, *rows = read_table(out / "test_predictions.tsv")
    assert header == ["id", "prediction", "hot", "salty"]
    assert [row[1] for row in rows] == ["hot", "", "hot|salty"]
    bert_tf.checkpoints.convert(str(out), str(tmp_path / "hf"), "hugging_face")
    written = json.loads((tmp_path / "hf/config.json").read_text())
    assert written["problem_type"] == "multi_label_classification"


REVIEWS = "nr,review,stars\n" + "".join(f'{i},"a,{"bc"[i % 2]}",{i % 2}\n' for i in range(8))


@pytest.mark.slow
def test_columns_are_remembered(run, run_script, tmp_path):
    """Later runs and the exported model find them in other files, and give the same answers."""
    texts = {"test__tsv": "nr\treview\n7\ta b\n", "other__jsonl": '{"body": "a"}\n'}
    write_files(tmp_path, train__csv=REVIEWS, bare__txt="a b\nc\n", **texts)
    data, out = f"{tmp_path}/train.csv", tmp_path / "out"
    run("--do_train", "--do_predict", f"--train_file={data}", f"--test_file={data}",
        "--num_train_epochs=2", "--learning_rate=0.01", "--text_columns=review",
        "--label_column=stars", "--id_column=nr")  # fmt: skip
    stored = json.loads((out / "classifier.json").read_text())["columns"]
    assert stored == {"text_columns": ["review"], "label_column": ["stars"], "id_column": "nr"}
    run_script("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/tf", "--nowarm_up")
    run_script("predict.py", f"--model={tmp_path}/tf", f"--input_file={data}",
               f"--output_file={tmp_path}/answers.csv")  # fmt: skip
    header, *rows = csv.reader((tmp_path / "answers.csv").read_text().splitlines())
    assert header[:4] == ["nr", "review", "stars", "prediction"]
    found = np.float64([row[4:] for row in rows])
    np.testing.assert_allclose(found, np.loadtxt(out / "test_results.tsv"), atol=1e-5)

    log = run("--do_eval", f"--dev_file={data}")
    assert "--text_columns=review, --label_column=stars, --id_column=nr" in log
    assert "columns nr (id), review (text), stars (label); 8 examples" in log
    # These files differ in delimiters, header and columns.
    run("--do_predict", f"--test_file={tmp_path}/test.tsv")
    assert read_table(out / "test_predictions.tsv")[1][0] == "7"
    with pytest.raises(bert_tf.UserError, match="line 1: found a b, expected review; if this is a"):
        run("--do_predict", f"--test_file={tmp_path}/bare.txt")
    log = run("--do_predict", f"--test_file={tmp_path}/other.jsonl", "--text_columns=body",
              "--id_column=body")  # fmt: skip
    assert "using --text_columns=body, although the model was trained with review" in log


@pytest.mark.slow
def test_held_out_rows(run, tmp_path):
    write_files(tmp_path, train__csv=REVIEWS, changed__csv=REVIEWS.replace("a,b", "a,d"))
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
