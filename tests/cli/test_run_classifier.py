"""run_classifier.py and export_model.py: each type of task from files to answers."""

import json

import numpy as np
import pytest

import bert_tf
from tests.common import read_results, read_table, write_files, write_mnli
from tests.tasks.conftest import make_run, run_task_test


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
        assert row[0] == "0"
        assert row[1] == header[2 + np.argmax(np.float32(row[2:]))]
        assert read_table(out / f"test_results{suffix}.tsv") == [row[2:]]
    # Prediction reads the model and its options from the folder.
    run("--task_name=ax", f"--data_dir={data}", "--do_predict")
    assert len(read_table(out / "test_results_ax.tsv")) == 2
    assert len(read_table(out / "test_results.tsv")) == 1  # the results of MNLI are kept
    for split in ("train", "eval", "eval_mismatched", "predict", "predict_mismatched"):
        assert (out / f"{split}.tf_record").exists()


@pytest.mark.slow
def test_regression(run, run_script, tmp_path):
    """A regression model learns, is evaluated, predicts and is exported."""
    rows = [("a b", 1.0), ("b a", 1.5), ("c d", 4.0), ("d c d", 5.0)] * 4
    text = "text\tlabel\n" + "".join(f"{x}\t{y}\n" for x, y in rows)
    write_files(
        tmp_path, train__tsv=text, dev__tsv=text + "a\tnan\n", test__tsv="text\na b\nd c d\n"
    )
    out = tmp_path / "out"
    data = ["--task_name=tsv", f"--data_dir={tmp_path}"]
    train = ["--task_type=regression", "--report", "--num_train_epochs=120",
             "--learning_rate=5e-3", "--skip_bad_rows"]  # fmt: skip
    log, _, _ = run_task_test(  # the task type of the predictions comes from the folder
        run, run_script, tmp_path, data, train,
        results={"eval_pearson", "eval_spearman", "eval_loss", "global_step", "loss"},
        above={"eval_pearson": 0.9}, rows=["a b", "d c d"],
        values=lambda answer: [answer["score"]],
    )  # fmt: skip
    assert "bad rows skipped: 1, the first: " in log and "dev.tsv, line 18" in log
    assert float(read_results(out / "eval_results.txt")["eval_loss"]) < 1
    assert "mean absolute error" in (out / "eval_report.txt").read_text()
    assert json.loads((out / "classifier.json").read_text())["task_type"] == "regression"
    scores = np.loadtxt(out / "test_results.tsv")
    assert scores.shape == (2,) and scores[0] < 2.5 < scores[1]
    assert [row[0] for row in read_table(out / "test_predictions.tsv")] == ["id", "0", "1"]
    with pytest.raises(bert_tf.UserError, match=r"--output_dir: .*regression.*classification"):
        run(*data, "--do_eval", "--task_type=classification", "--skip_bad_rows")


@pytest.mark.slow
def test_several_labels(run, tmp_path):
    """A CSV file has one column per label; the checkpoint with the best F1 answers."""
    rows = ["a b,1,0", "b a,1,0", "c d,0,1", "a d,1,1", '"e, e",0,0'] * 4
    text = "\n".join(["what,hot,salty", *rows]) + "\n"
    write_files(tmp_path, train__csv=text, dev__csv=text, test__csv='what\na b\n"e, e"\na d\n')
    out = tmp_path / "out"
    flags = [
        f"--train_file={tmp_path}/train.csv", f"--dev_file={tmp_path}/dev.csv",
        f"--test_file={tmp_path}/test.csv", "--text_columns=what", "--label_column=hot,salty",
        "--task_type=multi_label",
    ]  # fmt: skip
    run(
        *flags, "--do_train", "--do_eval", "--do_predict", "--report",
        "--num_train_epochs=120", "--learning_rate=5e-3", "--eval_steps=300",
        "--best_metric=eval_f1_macro", "--label_separator=|",
    )  # fmt: skip
    results = read_results(out / "eval_results.txt")
    assert float(results["eval_accuracy"]) == float(results["eval_f1_macro"]) == 1.0
    report = (out / "eval_report.txt").read_text()
    assert "salty     1.0000    1.0000    1.0000" in report
    predictions = read_table(out / "test_predictions.tsv")
    assert predictions[0] == ["id", "prediction", "hot", "salty"]
    assert [row[1] for row in predictions[1:]] == ["hot", "", "hot|salty"]
    expected = np.loadtxt(out / "test_results.tsv")
    assert expected.shape == (3, 2)

    bert_tf.checkpoints.convert(str(out), str(tmp_path / "hf"), "hugging_face")
    written = json.loads((tmp_path / "hf/config.json").read_text())
    assert written["problem_type"] == "multi_label_classification"
