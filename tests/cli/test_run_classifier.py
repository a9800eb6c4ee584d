"""run_classifier.py and export_model.py by their flags: each kind of task from files to answers."""

import json
import zipfile

import numpy as np
import pytest
import scripts_alone
import tensorflow as tf
from test_modeling import TINY
from test_scripts import WORDS, results
from test_tasks import mnli, write

import bert_tf

SMALL = ["--max_seq_length=8", "--train_batch_size=4", "--distribution_strategy=one_device"]


@pytest.fixture
def run(heard, tmp_path):
    """Runs a script with these flags in this process; returns what it said."""
    scripts_alone.write_model(tmp_path, TINY, WORDS)
    return heard("run_classifier", "export_model")


def model(folder):
    return [f"--vocab_file={folder}/vocab.txt", f"--bert_config_file={folder}/config.json"]


def table(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_mnli_and_its_diagnostic_set(run, tmp_path):
    data, out, hand_in = tmp_path / "data", tmp_path / "out", tmp_path / "hand_in"
    data.mkdir()
    mnli(data)
    write(data, diagnostic__tsv="index\tsentence1\tsentence2\n0\ta\tb\n1\tc\td\n")
    run(
        "run_classifier", "--task_name=MNLI", f"--data_dir={data}", f"--output_dir={out}",
        "--do_train", "--do_eval", "--do_predict", "--num_train_epochs=2",
        f"--glue_submission={hand_in}", *model(tmp_path), *SMALL, "--train_batch_size=1",
    )  # fmt: skip
    expected = {"eval_accuracy", "eval_loss", "global_step", "loss"}
    for part in ("", "_mismatched"):
        assert set(results(out / f"eval_results{part}.txt")) == expected
        (header, row) = table(out / f"test_predictions{part}.tsv")
        assert header == ["id", "prediction", "contradiction", "entailment", "neutral"]
        assert row[0] == "0"
        assert row[1] == header[2 + np.argmax(np.float32(row[2:]))]
        assert table(out / f"test_results{part}.tsv") == [row[2:]]
    # The model is known by its folder: no vocabulary, no config, no length.
    said = run(
        "run_classifier", "--task_name=ax", f"--data_dir={data}", f"--output_dir={out}",
        "--do_predict", f"--glue_submission={hand_in}",
    )  # fmt: skip
    assert "bert_config_file, vocab_file, do_lower_case, max_seq_length" in said
    assert len(table(out / "test_results_ax.tsv")) == 2
    assert len(table(out / "test_results.tsv")) == 1, "those of MNLI are left alone"
    with zipfile.ZipFile(hand_in / "submission.zip") as archive:
        assert archive.namelist() == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    for split in ("train", "eval", "eval_mismatched", "predict", "predict_mismatched"):
        assert (out / f"{split}.tf_record").exists()
    # A second evaluation reads the features that the first one wrote.
    flags = ["--task_name=MNLI", f"--data_dir={data}", f"--output_dir={out}", "--do_eval"]
    assert "eval.tf_record is used again" in run("run_classifier", *flags)
    said = run("run_classifier", *flags, "--max_seq_length=7")
    assert "eval.tf_record is made: max_seq_length changed since" in said


def test_scores(run, tmp_path):
    """A regression learns, is evaluated, predicts and is exported."""
    rows = [("a b", 1.0), ("b a", 1.5), ("c d", 4.0), ("d c d", 5.0)] * 4
    text = "text\tlabel\n" + "".join(f"{x}\t{y}\n" for x, y in rows)
    write(tmp_path, train__tsv=text, dev__tsv=text + "a\tnan\n", test__tsv="text\na b\nd c d\n")
    out = tmp_path / "out"
    data = ["--task_name=tsv", f"--data_dir={tmp_path}", f"--output_dir={out}"]
    said = run(
        "run_classifier", *data, "--task_type=regression", "--do_train", "--do_eval", "--report",
        "--num_train_epochs=120", "--learning_rate=3e-3", "--skip_bad_rows", *model(tmp_path),
        *SMALL,
    )  # fmt: skip
    assert "bad rows left out: 1, the first: " in said
    found = results(out / "eval_results.txt")
    assert set(found) == {"eval_pearson", "eval_spearman", "eval_loss", "global_step", "loss"}
    assert float(found["eval_pearson"]) > 0.9
    assert float(found["eval_loss"]) < 1
    assert "mean absolute error" in (out / "eval_report.txt").read_text()
    assert json.loads((out / "classifier.json").read_text())["task_type"] == "regression"
    run("run_classifier", *data, "--do_predict")  # the kind of task comes from the folder
    scores = np.loadtxt(out / "test_results.tsv")
    assert scores.shape == (2,) and scores[0] < 2.5 < scores[1]
    assert [row[0] for row in table(out / "test_predictions.tsv")] == ["id", "0", "1"]
    with pytest.raises(bert_tf.UserError, match="the model there is a regression, and not a class"):
        run("run_classifier", *data, "--do_eval", "--task_type=classification", "--skip_bad_rows")

    run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    model_of = tf.saved_model.load(f"{tmp_path}/export/1").signatures
    serve = model_of["ids"]
    ids = tf.constant([[2, *(WORDS.index(c) for c in "dcd"), 3]])
    answer = serve(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids)
    assert sorted(answer) == ["logits", "score"]
    np.testing.assert_allclose(answer["score"], scores[1:], atol=1e-5)
    answer = model_of["serving_default"](text=tf.constant(["d c d", "dcd"[:1]]))
    np.testing.assert_allclose(answer["score"][0], scores[1], atol=1e-5)


def test_several_labels(run, tmp_path):
    """Labels in columns of their own, in a CSV; the best by F1 is kept, and exported."""
    rows = ["a b,1,0", "b a,1,0", "c d,0,1", "a d,1,1", '"e, e",0,0'] * 4
    text = "\n".join(["what,hot,salty", *rows]) + "\n"
    write(tmp_path, train__csv=text, dev__csv=text, test__csv='what\na b\n"e, e"\na d\n')
    out = tmp_path / "out"
    flags = [
        f"--train_file={tmp_path}/train.csv", f"--dev_file={tmp_path}/dev.csv",
        f"--test_file={tmp_path}/test.csv", "--text_columns=what", "--label_column=hot,salty",
        "--task_type=multi_label", f"--output_dir={out}",
    ]  # fmt: skip
    run(
        "run_classifier", *flags, "--do_train", "--do_eval", "--do_predict", "--report",
        "--num_train_epochs=120", "--learning_rate=3e-3", "--eval_steps=300",
        "--best_metric=eval_f1_macro", "--label_separator=|", *model(tmp_path), *SMALL,
    )  # fmt: skip
    found = results(out / "eval_results.txt")
    assert set(found) == {
        "eval_accuracy", "eval_f1_macro", "eval_f1_micro", "eval_loss", "global_step", "loss"
    }  # fmt: skip
    assert float(found["eval_accuracy"]) == float(found["eval_f1_macro"]) == 1.0
    report = (out / "eval_report.txt").read_text()
    assert "salty     1.0000    1.0000    1.0000" in report
    predictions = table(out / "test_predictions.tsv")
    assert predictions[0] == ["id", "prediction", "hot", "salty"]
    assert [row[1] for row in predictions[1:]] == ["hot", "", "hot|salty"]
    expected = np.loadtxt(out / "test_results.tsv")
    assert expected.shape == (3, 2)

    run("export_model", f"--model_dir={out}", f"--checkpoint={out}/best",
        f"--export_dir={tmp_path}/export")  # fmt: skip
    serve = tf.saved_model.load(f"{tmp_path}/export/1").signatures["ids"]
    ids = tf.constant([[2, WORDS.index("a"), WORDS.index("d"), 3]])
    answer = serve(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids)
    np.testing.assert_allclose(answer["probabilities"][0], expected[2], atol=1e-5)
    bert_tf.checkpoints.convert(str(out), str(tmp_path / "hf"), "hugging_face")
    written = json.loads((tmp_path / "hf/config.json").read_text())
    assert written["problem_type"] == "multi_label_classification"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--do_train"], r"--task_name, --tfds_name or a file .* must say what to read"),
        (["--do_train", "--task_name=cola"], "--data_dir or --train_file must be given"),
        (
            ["--do_train", "--task_name=cola", "--text_columns=a"],
            "--text_columns is for files of your own; those of --task_name=cola are known",
        ),
        (
            ["--do_predict", "--task_name=xnli", "--glue_submission=x"],
            "--glue_submission: this task is not on GLUE's leaderboard",
        ),
        (
            ["--do_predict", "--task_name=cola", "--glue_submission=x", "--skip_bad_rows"],
            "--glue_submission: the leaderboard wants all rows",
        ),
        (
            ["--do_train", "--task_name=mrpc", "--tfds_name=glue/mrpc"],
            "--task_name does not go with --tfds_name",
        ),
        (["--do_train", "--tfds_name=x", "--tfds_splits=a,b,c,d"], "--tfds_splits: those for"),
        (["--do_train", "--task_name=mrpc", "--tfds_splits=a"], "--tfds_splits wants --tfds_name"),
        (["--do_eval", "--task_name=ax"], "--do_eval: this task has no dev set"),
    ],
)
def test_flags_that_do_not_go_together(run, tmp_path, flags, message):
    with pytest.raises(bert_tf.UserError, match=message):
        run("run_classifier", f"--output_dir={tmp_path}/out", *flags, *model(tmp_path), *SMALL)
    assert not (tmp_path / "out").exists()
