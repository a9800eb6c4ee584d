"""Result files: predictions, submissions to the GLUE leaderboard, tables of several seeds."""

import zipfile

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.classification import find_task
from bert_tf.tasks.classification.glue import write_submission
from bert_tf.training import fine_tuning, results
from tests.common import QUICK_RUN, read_results, read_table, write_files, write_model
from tests.tasks.task_helpers import SMALL
from tests.training.training_helpers import assert_same


def test_predictions_as_text():
    assert results.as_text(np.array([1, 0]), ("x", "y")) == ["y", "x"]
    assert results.as_text(np.float32([[1, 1], [0, 0]]), ("x", "y"), "; ") == ["x; y", ""]
    assert results.as_text(np.float32([0.5, 4]), ()) == ["0.5", "4.0"]


def test_files_of_predictions(tmp_path):
    def write(split, predicted, labels, answers):
        answers = np.float32(answers)
        results.write_predictions(str(tmp_path), split, ["7", "8"], predicted, labels, answers)

    write("test", ["y", "a\tb\nc"], ("x", "y"), [[0.25, 0.75], [1, 0]])
    assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n1.0\t0.0\n"
    predictions = (tmp_path / "test_predictions.tsv").read_text()
    assert predictions == "id\tprediction\tx\ty\n7\ty\t0.25\t0.75\n8\ta b c\t1.0\t0.0\n"
    write("test_ax", ["0.5", "4.0"], (), [0.5, 4])
    assert (tmp_path / "test_results_ax.tsv").read_text() == "0.5\n4.0\n"
    predictions = (tmp_path / "test_predictions_ax.tsv").read_text()
    assert predictions == "id\tprediction\n7\t0.5\n8\t4.0\n"


def test_submissions_are_collected_in_one_zip(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    folder = tmp_path / "glue"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes.tsv").write_text("mine")

    def write(task_name, split, ids, predicted):
        write_submission(str(folder), find_task(task_name), split, ids, predicted)

    write("mnli", "test", ["1", "0"], ["neutral", "entailment"])
    assert (folder / "MNLI-m.tsv").read_text() == "index\tprediction\n0\tentailment\n1\tneutral\n"
    write("mnli", "test_mismatched", ["0"], ["contradiction"])
    write("ax", "test_ax", ["0"], ["neutral"])
    # Scores are clipped to the leaderboard's range.
    write("sts-b", "test", ["0", "1", "2"], ["-0.2", "5.3", "2.12345"])
    with zipfile.ZipFile(folder / "submission.zip") as archive:
        assert archive.namelist() == ["STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
        text = archive.read("STS-B.tsv").decode()
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.123\n"
    assert caplog.messages[-1].endswith(": CoLA, SST-2, MRPC, QQP, QNLI, RTE, WNLI")
    before = (folder / "submission.zip").read_bytes()
    for ids in (["0", "2"], ["1", "2"], ["0", "0"], ["0", "x"]):
        with pytest.raises(bert_tf.UserError, match=r"`glue_submission`: .* SST-2\.tsv"):
            write("sst2", "test", ids, ["0", "1"])
    assert not (folder / "SST-2.tsv").exists()
    assert (folder / "submission.zip").read_bytes() == before


def test_table_of_seeds(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    path = tmp_path / "eval_seeds.tsv"
    metrics = {4: {"loss": 1.0, "global_step": 12}, 5: {"loss": 2.0, "global_step": 12}}
    results.write_seeds(str(path), metrics)
    header, *rows = read_table(path)
    assert header == ["seed", "global_step", "loss"]
    assert [row[0] for row in rows] == ["4", "5", "mean", "std", "min", "max"]
    losses = [float(row[2]) for row in rows]
    np.testing.assert_allclose(losses, [1, 2, 1.5, np.sqrt(0.5), 1, 2])
    assert "loss = 1.5000, std 0.7071, 1.0000 to 2.0000" in caplog.text


@pytest.fixture
def seed_flags(tmp_path):
    """Write data and a model; return the flags of a short run."""
    text = "text\tlabel\n" + "a b\tx\nb a\tx\nc d\ty\nd c\ty\n" * 2
    write_files(tmp_path, train__tsv=text, dev__tsv=text, test__tsv="text\na b\n")
    return [
        f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", "--do_eval", "--do_predict",
        "--num_train_epochs=2", "--learning_rate=1e-3", *write_model(tmp_path, **SMALL), *QUICK_RUN,
    ]  # fmt: skip


def test_a_run_of_several_seeds(run_script, seed_flags, tmp_path, monkeypatch):
    """Each seed has a run in its own folder; the runs are replaced by a fake here."""

    def run(self, folder, seed):
        assert folder == str(tmp_path / f"out/seed_{seed}")
        for path in (out, folder):
            self.save_config(path)
        return {"dev": {"eval_loss": seed / 2, "global_step": 6}}

    monkeypatch.setattr(fine_tuning.Run, "run", run)
    out = tmp_path / "out"
    flags = [*seed_flags, "--num_seeds=2", "--seed=4", f"--output_dir={out}"]
    log = run_script("run_classifier", *flags)
    assert "run 2 of 2: seed 5" in log
    rows = read_table(out / "eval_seeds.tsv")
    assert rows[:3] == [
        ["seed", "eval_loss", "global_step"], ["4", "2.0", "6.0"], ["5", "2.5", "6.0"]
    ]  # fmt: skip
    assert (out / "seed_4/classifier.json").exists()
    # A command that needs one model names the folders in its error.
    data = [f"--data_dir={tmp_path}", "--task_name=tsv", f"--output_dir={out}"]
    with pytest.raises(bert_tf.UserError, match=r"--output_dir.*seed_4, seed_5.*--num_seeds"):
        run_script("run_classifier", *data, "--do_eval")
    with pytest.raises(bert_tf.UserError, match=r"--glue_submission.*--num_seeds=1"):
        run_script("run_classifier", *flags, "--task_name=cola", "--glue_submission=x")


@pytest.mark.slow
def test_one_of_several_seeds_is_the_same_as_a_single_run(run_script, seed_flags, tmp_path):
    out = tmp_path / "out"
    flags = [*seed_flags, "--num_seeds=2", "--seed=4", f"--output_dir={out}"]
    run_script("run_classifier", *flags)
    rows = read_table(out / "eval_seeds.tsv")
    assert rows[0][0] == "seed" and "eval_f1_macro" in rows[0]
    column = rows[0].index("eval_loss")
    assert rows[1][column] != rows[2][column]
    for seed, *values in rows[1:3]:
        found = read_results(out / f"seed_{seed}/eval_results.txt")["eval_loss"]
        assert found == values[column - 1]
        assert (out / f"seed_{seed}/test_predictions.tsv").exists()
    with pytest.raises(bert_tf.UserError, match="seed_4, seed_5"):
        run_script("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    run_script("run_classifier", *seed_flags, "--seed=5", f"--output_dir={tmp_path}/single")
    assert_same(out / "seed_5", tmp_path / "single")
    # Repeating the command trains nothing.
    log = run_script("run_classifier", *flags)
    assert log.count("training: nothing to do") == 2
    assert read_table(out / "eval_seeds.tsv") == rows
