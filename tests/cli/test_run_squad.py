"""run_squad.py by its flags: from questions to answers and scores; input that is wrong."""

import json

import numpy as np
import pytest
import scripts_alone
import tensorflow as tf
from squad_helpers import CONTEXTS, dataset, letters, question
from test_modeling import TINY
from test_run_classifier import model
from test_scripts import WORDS, results

import bert_tf
from bert_tf.tasks.question_answering import decoding, reading
from bert_tf.tasks.question_answering import results as results_of_squad

# A context of eight tokens fits beside a question of one.
SMALL = [
    "--max_seq_length=12", "--max_query_length=4", "--doc_stride=3", "--train_batch_size=4",
    "--distribution_strategy=one_device", "--learning_rate=3e-3", "--num_train_epochs=150",
    "--max_answer_length=2",
]  # fmt: skip


@pytest.fixture
def run(heard, tmp_path):
    """Runs a script with these flags in this process; returns what it said."""
    # From small weights so small a model learns slowly.
    scripts_alone.write_model(tmp_path, TINY, WORDS, initializer_range=0.2)
    return heard("run_squad", "export_model")


def read(path):
    return json.loads(path.read_text())


def test_version_1(run, tmp_path):
    data, out = letters(tmp_path / "data.json"), tmp_path / "out"
    flags = [f"--train_file={data}", f"--predict_file={data}", f"--output_dir={out}"]
    said = run(
        "run_squad", "--do_train", "--do_predict", "--do_eval", *flags, *model(tmp_path), *SMALL,
        "--eval_steps=300", "--best_metric=eval_f1",
    )  # fmt: skip
    found = results(out / "eval_results.txt")
    assert set(found) == {"eval_exact_match", "eval_f1", "eval_total", "global_step"}
    assert float(found["eval_exact_match"]) == 100
    assert "data.json: 10 questions" in said
    predictions = read(out / "predictions.json")
    assert predictions == {f"{i}{x}": c[c.lower().index(x)] for i, c in enumerate(CONTEXTS)
                           for x in "cd"}  # fmt: skip
    n_best = read(out / "nbest_predictions.json")
    assert list(n_best) == list(predictions)
    for name, entries in n_best.items():
        assert list(entries[0]) == ["text", "probability", "start_logit", "end_logit"]
        assert entries[0]["text"] == predictions[name]
        np.testing.assert_allclose(sum(entry["probability"] for entry in entries), 1)
    # The release's indents.
    text = (out / "predictions.json").read_text()
    assert text == json.dumps(predictions, indent=4) + "\n"
    text = (out / "nbest_predictions.json").read_text()
    assert text == json.dumps(n_best, indent=4) + "\n"
    assert not (out / "null_odds.json").exists()
    # The last evaluation, of the best step, is among the curves.
    (events,) = (out / "eval").iterdir()
    curve = [(event.step, tf.make_ndarray(value.tensor).item())
             for event in tf.compat.v1.train.summary_iterator(str(events))
             for value in event.summary.value if value.tag == "eval_exact_match"]  # fmt: skip
    steps = [step for step, _ in curve]
    assert curve[-1] == (int(found["global_step"]), 100)
    assert steps[:-1] == sorted(steps[:-1]) and steps[-1] in steps[:-1]
    # The folder knows its model; the features are used again.
    said = run("run_squad", "--do_predict", f"--predict_file={data}", f"--output_dir={out}")
    assert "as in " in said and "max_seq_length, doc_stride, max_query_length" in said
    assert "eval.tf_record is used again" in said
    assert read(out / "predictions.json") == predictions
    # By characters they are the same here, and so they are from the exported model.
    run("run_squad", "--do_predict", f"--predict_file={data}", f"--output_dir={out}",
        "--answer_alignment=offsets", "--best_metric=eval_f1")  # fmt: skip
    assert read(out / "predictions.json") == predictions
    run("export_model", f"--model_dir={out}", f"--checkpoint={out}/best",
        f"--export_dir={tmp_path}/export")  # fmt: skip
    assert (tmp_path / "export/1/assets.extra/vocab.txt").exists()
    serve = tf.saved_model.load(f"{tmp_path}/export/1").signatures["serving_default"]
    pairs = [(name[1], CONTEXTS[int(name[0])]) for name in predictions]
    questions, contexts = map(tf.constant, zip(*pairs, strict=True))
    found = serve(question=questions, context=contexts)
    assert [text.decode() for text in found["answer"].numpy()] == list(predictions.values())


def test_version_2(run, tmp_path):
    data, out = letters(tmp_path / "data.json", has_negative=True), tmp_path / "out"
    flags = [f"--predict_file={data}", f"--output_dir={out}", "--do_predict", "--do_eval"]
    run(
        "run_squad", "--do_train", f"--train_file={data}", "--version_2_with_negative", *flags,
        *model(tmp_path), *SMALL,
    )  # fmt: skip
    found = results(out / "eval_results.txt")
    assert float(found["eval_f1"]) == float(found["eval_best_f1"]) == 100
    assert (found["eval_HasAns_total"], found["eval_NoAns_total"]) == ("10", "5")
    predictions, odds = read(out / "predictions.json"), read(out / "null_odds.json")
    assert list(predictions) == list(odds)
    assert [name for name, text in predictions.items() if not text] == [f"{i}e" for i in range(5)]
    # Another threshold answers all of them; the best one is found again, and kept.
    run("run_squad", *flags, "--null_score_diff_threshold=1000",
        "--distribution_strategy=mirrored")  # fmt: skip
    assert all(read(out / "predictions.json").values())
    assert float(results(out / "eval_results.txt")["eval_NoAns_f1"]) == 0
    said = run("run_squad", *flags, "--null_score_diff_threshold=1000",
               "--find_null_score_diff_threshold")  # fmt: skip
    assert "the best null_score_diff_threshold of this set is" in said
    assert read(out / "predictions.json") == predictions
    threshold = read(out / "squad.json")["null_score_diff_threshold"]
    assert max(odds[name] for name in odds if "e" not in name) == threshold
    run("run_squad", *flags)
    assert read(out / "predictions.json") == predictions


def test_no_answer_where_nothing_can_be_one(run, tmp_path):
    """An empty context has no window, and one of a window no span that may be an answer."""
    paragraphs = [("", [question("0", "c", "", is_impossible=True)]),
                  ("a C b", [question("1", "c", "a C b", "C", is_impossible=False)])]  # fmt: skip
    data, out = dataset(tmp_path / "data.json", paragraphs), tmp_path / "out"
    flags = [f"--train_file={data}", f"--predict_file={data}", f"--output_dir={out}"]
    said = run(
        "run_squad", "--do_train", "--do_predict", "--do_eval", *flags, *model(tmp_path), *SMALL,
        "--num_train_epochs=2", "--train_batch_size=1", "--version_2_with_negative",
        "--n_best_size=1",
    )  # fmt: skip
    assert "paragraphs without text: 1, the first: " in said
    assert read(out / "predictions.json")["0"] == ""
    assert read(out / "null_odds.json")["0"] == 1_000_000
    run("run_squad", "--do_predict", f"--predict_file={data}", f"--output_dir={out}",
        "--version_2_with_negative=false")  # fmt: skip
    assert read(out / "predictions.json")["0"] == "empty"


def wrong(folder):
    """Yields (what is wrong, the file, flags, what must be said)."""
    context = "a b C"
    good = question("1", "a", context, "C")

    def made(name, entry, context=context):
        return dataset(folder / f"{name}.json", [(context, [entry])])

    yield "no file", folder / "none.json", [], "--train_file: there is no file"
    for key in ("id", "question"):
        entry = {name: value for name, value in good.items() if name != key}
        message = f"data[0].paragraphs[0].qas[0]: '{key}' is missing; the keys are"
        yield f"no {key}", made(key, entry), [], message
    entry = {name: value for name, value in good.items() if name != "answers"}
    yield "no answers", made("answers", entry), [], "qas[0] (id 1): 'answers' is missing"
    bad = {**good, "answers": [{"text": "C", "answer_start": "4"}]}
    yield (
        "start as text",
        made("text", bad),
        [],
        "'answer_start' must be an integer, found \"4\"",
    )
    bad = {**good, "answers": [{"text": "C", "answer_start": 400}]}
    message = "no usable questions; "
    yield "answer elsewhere", made("elsewhere", bad), [], message
    yield (
        "answer of nothing",
        made("nothing", {**good, "answers": [{"text": " ", "answer_start": 1}]}),
        [],
        message,
    )
    bad = {**good, "answers": good["answers"] * 2}
    yield "two answers", made("two", bad), [], "expected exactly one answer for training, found 2"
    yield "empty context", made("empty", good, ""), [], message
    negative = question("1", "a", context, is_impossible=True)
    message = "the question has no answer; SQuAD 2.0 requires --version_2_with_negative"
    yield "version 2", made("negative", negative), [], message
    text = json.dumps(json.loads(made("whole", good).read_text()), indent=1)
    (folder / "cut.json").write_text(text[: text.index('"qas"') + 20])
    yield "cut", folder / "cut.json", [], "the file may be truncated"
    (folder / "comma.json").write_text(text.replace('"answer_start"', ' , "answer_start"'))
    yield "a comma too many", folder / "comma.json", [], "invalid JSON"
    (folder / "list.json").write_text("[]")
    yield (
        "a list",
        folder / "list.json",
        [],
        "line 1, character 1: invalid JSON: expected an object",
    )
    (folder / "other.json").write_text('{"version": 1}')
    yield (
        "other JSON",
        folder / "other.json",
        [],
        "the key 'data', the list of articles",
    )
    (folder / "digits.json").write_text('{"data": [' + "1" * 5000 + "]}")
    message = "line 1, character 11: invalid JSON: Exceeds the limit"
    yield "a number without end", folder / "digits.json", [], message
    (folder / "latin.json").write_bytes(text.replace("a b C", "\u00e9").encode("latin-1"))
    yield "not UTF-8", folder / "latin.json", [], "not UTF-8 text near byte"
    yield (
        "no room", folder / "whole.json", ["--max_query_length=9"],
        "--max_seq_length=12 must be greater than --max_query_length=9 + 3",
    )  # fmt: skip
    yield (
        "threshold",
        folder / "whole.json",
        ["--find_null_score_diff_threshold"],
        ("--find_null_score_diff_threshold wants --version_2_with_negative"),
    )
    yield "splits", folder / "whole.json", ["--tfds_splits=a,b"], "--tfds_splits wants --tfds_name"
    yield "both", folder / "whole.json", ["--tfds_name=squad"], "--train_file does not go with"


def test_what_is_wrong_is_said(run, tmp_path):
    for name, path, flags, message in wrong(tmp_path):
        out = tmp_path / "out"
        with pytest.raises(bert_tf.UserError) as caught:
            run("run_squad", "--do_train", f"--train_file={path}", f"--output_dir={out}",
                *model(tmp_path), *SMALL, *flags)  # fmt: skip
        assert message in str(caught.value), name
        assert not out.exists(), name


def test_what_is_odd_is_counted(run, tmp_path):
    good = question("1", "a b c d e f", "a b C", "C")
    astray = {**good, "id": "2", "answers": [{"text": "C", "answer_start": 0}]}
    data = dataset(tmp_path / "data.json", [("a b C", [good, astray])])
    out = tmp_path / "out"
    said = run("run_squad", "--do_train", f"--train_file={data}", f"--output_dir={out}",
               *model(tmp_path), *SMALL, "--train_batch_size=1",
               "--num_train_epochs=1")  # fmt: skip
    assert "questions skipped because their answer is not in the context: 1, the first: " in said
    assert 'qas[1] (id 2): "C" at character 0' in said
    assert "questions truncated to --max_query_length=4 tokens: 1, the first: " in said
    (serialized,) = tf.data.TFRecordDataset(str(out / "train.tf_record")).as_numpy_iterator()
    example = tf.train.Example.FromString(serialized)
    ids = example.features.feature["input_ids"].int64_list.value
    assert [WORDS[i] for i in ids] == [
        "[CLS]", *"abcd", "[SEP]", *"abc", "[SEP]", "[PAD]", "[PAD]"
    ]  # fmt: skip
    said = run("run_squad", "--do_train", f"--train_file={data}", f"--output_dir={out}",
               *model(tmp_path), *SMALL, "--train_batch_size=1", "--num_train_epochs=2",
               "--doc_stride=2")  # fmt: skip
    assert "has begun with other training data or settings (doc_stride changed since" in said
    # To predict, such questions need no flag, and get an answer all the same.
    with pytest.raises(bert_tf.UserError, match="an earlier question has the same id"):
        twice = dataset(tmp_path / "twice.json", [("a b C", [good, good])])
        run("run_squad", "--do_predict", f"--predict_file={twice}", f"--output_dir={out}")


def test_files_of_answers_appear_together(tmp_path):
    null = decoding.Candidate(None, 0, 0, 1.0, 2.0)
    found = decoding.QuestionPrediction([null], None, decoding.MAX_NULL_ODDS)
    asked = [(reading.Question("", "1", "x", (), True), found)]
    made = results_of_squad.Results(decoding.DecodingConfig(version_2_with_negative=True))
    with pytest.raises(KeyboardInterrupt), made.writing(str(tmp_path)):
        made.collect(asked)
        made.write()
        assert len(list(tmp_path.iterdir())) == 3 and not list(tmp_path.glob("*.json"))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with made.writing(str(tmp_path)):
        made.collect(asked)
        made.write()
    names = ["nbest_predictions.json", "null_odds.json", "predictions.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert read(tmp_path / "null_odds.json") == {"1": decoding.MAX_NULL_ODDS}


def test_a_folder_of_another_script_is_refused(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/classifier.json").write_text("{}")
    with pytest.raises(bert_tf.UserError, match=r"a run of run_classifier.py, by its classifier"):
        run("run_squad", "--do_predict", f"--output_dir={tmp_path}/out")
