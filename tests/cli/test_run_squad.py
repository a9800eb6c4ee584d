"""run_squad.py: from questions to answers, scores and an exported model; invalid input."""

import json

import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.registry import load_config
from tests.common import read_results
from tests.squad_helpers import CONTEXTS, dataset, letters, question
from tests.tasks.conftest import make_run

# Fits a question of one token and a context of eight.
QUICK_RUN = [
    "--max_seq_length=12", "--max_query_length=4", "--doc_stride=3", "--train_batch_size=4",
    "--distribution_strategy=one_device", "--learning_rate=5e-3", "--num_train_epochs=80",
    "--max_answer_length=2",
]  # fmt: skip


@pytest.fixture
def run(run_script, tmp_path):
    """A function that runs run_squad.py, see `make_run`."""
    # A model this small learns slowly from small weights.
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
    return make_run(run_script, "run_squad.py", tmp_path, QUICK_RUN, initializer_range=0.2, **sizes)


def read(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_both_versions(run, tmp_path):
    """A run on SQuAD 2.0, whose best checkpoint also answers the questions as in SQuAD 1.1."""
    data, out = letters(tmp_path / "data.json", has_negative=True), tmp_path / "out"
    flags = [f"--predict_file={data}", "--do_predict", "--do_eval", "--best_metric=eval_f1"]
    run(
        "--do_train", f"--train_file={data}", "--num_train_epochs=240", "--eval_steps=240",
        "--version_2_with_negative", *flags,
    )  # fmt: skip
    results = read_results(out / "eval_results.txt")
    assert float(results["eval_f1"]) == float(results["eval_best_f1"]) == 100
    assert (results["eval_HasAns_total"], results["eval_NoAns_total"]) == ("10", "5")
    predictions, odds = read(out / "predictions.json"), read(out / "null_odds.json")
    expected = {f"{i}{x}": c[c.lower().index(x)] for i, c in enumerate(CONTEXTS) for x in "cd"}
    assert predictions == expected | {f"{i}e": "" for i in range(5)}
    assert list(predictions) == list(odds)
    # The curves include the last evaluation, which is of the best step.
    (events,) = (out / "eval").iterdir()
    curve = [(event.step, tf.make_ndarray(value.tensor).item())
             for event in tf.compat.v1.train.summary_iterator(str(events))
             for value in event.summary.value if value.tag == "eval_f1"]  # fmt: skip
    steps = [step for step, _ in curve]
    assert curve[-1] == (int(results["global_step"]), 100)
    assert steps[:-1] == sorted(steps[:-1]) and steps[-1] in steps[:-1]
    # With a different threshold every question is answered. Prediction reads the model and its
    # options from the folder and reuses the features.
    log = run(*flags, "--null_score_diff_threshold=1000", "--distribution_strategy=mirrored")
    assert f"reusing {out}/eval.tf_record" in log
    assert all(read(out / "predictions.json").values())
    assert float(read_results(out / "eval_results.txt")["eval_NoAns_f1"]) == 0
    # The best threshold is found and saved for the next run.
    log = run(*flags, "--null_score_diff_threshold=1000", "--find_null_score_diff_threshold")
    threshold = read(out / "squad.json")["null_score_diff_threshold"]
    assert max(odds[name] for name in odds if "e" not in name) < threshold
    assert f"best null_score_diff_threshold on this data: {threshold!r}, with an F1 of 100" in log
    assert read(out / "predictions.json") == predictions
    assert load_config(str(out))[1].null_score_diff_threshold == threshold

    (out / "null_odds.json").unlink()
    flags += [f"--predict_file={letters(tmp_path / 'v1.json')}", "--version_2_with_negative=false"]
    # Alignment by characters and padding give the same answers here.
    for more in ((), ("--answer_alignment=offsets", "--pad_to_max_length")):
        run(*flags, *more)
        results = read_results(out / "eval_results.txt")
        assert set(results) == {"eval_exact_match", "eval_f1", "eval_total", "global_step"}
        n_best = read(out / "nbest_predictions.json")
        assert {name: entries[0]["text"] for name, entries in n_best.items()} == expected
        for name, values in (("predictions", expected), ("nbest_predictions", n_best)):
            text = (out / f"{name}.json").read_text()
            assert text == json.dumps(values, indent=4) + "\n"  # indented as in the release
    assert not (out / "null_odds.json").exists()


@pytest.mark.slow
def test_unusual_contexts_and_questions(run, tmp_path):
    """They are counted. An empty context has no windows, and some windows have no answer."""
    good = question("1", "a b c d e f", "a b C", "C", is_impossible=False)
    astray = {**good, "id": "2", "answers": [{"text": "C", "answer_start": 0}]}
    paragraphs = [("", [question("0", "c", "", is_impossible=True)]), ("a b C", [good, astray])]
    data, out = dataset(tmp_path / "data.json", paragraphs), tmp_path / "out"
    train = [
        "--do_train", f"--train_file={data}", "--train_batch_size=1", "--num_train_epochs=1",
        "--version_2_with_negative", "--n_best_size=1",
    ]  # fmt: skip
    predict = ["--do_predict", f"--predict_file={data}"]
    log = run(*train, *predict)
    assert "empty questions or contexts: 1, the first: " in log
    skipped = log.partition("their answer is not in the context: 1, the first: ")[2]
    assert 'qas[1] (id 2): "C" at character 0' in skipped.partition("\n")[0]
    assert "dev: 2 of 3 questions (66.7%) have more than 4 tokens and are truncated" in log
    assert read(out / "predictions.json")["0"] == ""
    assert read(out / "null_odds.json")["0"] == 1_000_000
    run(*predict, "--version_2_with_negative=false")
    assert read(out / "predictions.json")["0"] == "empty"
    # A run can be resumed with different features; a warning names the option.
    log = run(*train, "--doc_stride=2")
    assert f"warning: the run in {out} " in log and "doc_stride changed" in log
    with pytest.raises(bert_tf.UserError, match=r"twice\.json.*qas\[1\] \(id 1\).*same id"):
        twice = dataset(tmp_path / "twice.json", [("a b C", [good, good])])
        run(*predict, f"--predict_file={twice}")
