"""Windows of questions and contexts, their records and answers equal the release's, in parallel."""

import functools
import hashlib
import json

import pytest

import bert_tf
from bert_tf.data import records
from bert_tf.tasks.question_answering import decoding, features
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from tests.common import read_results, write_model, write_vocab
from tests.squad_helpers import letters, record_values, window_logits
from tests.training.training_helpers import log, start_python, worker_environments


def described(window, tokenizer, config, unique_id, example_index):
    """Return a window in the form of the golden digests."""
    values = record_values(window, tokenizer.vocab, config.max_seq_length, unique_id)
    ids = values["input_ids"][: sum(values["input_mask"])]
    positions = range(window.offset, window.offset + window.length)
    return [
        unique_id, example_index, window.index,
        *(values[name] for name in ("input_ids", "input_mask", "segment_ids")),
        window.start_position, window.end_position, window.is_impossible,
        tokenizer.convert_ids_to_tokens(ids),
        [(i, window.context.token_to_word[window.token_at(i)]) for i in positions],
        [(i, window.is_max_context(i)) for i in positions],
    ]  # fmt: skip


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_windows_are_those_of_the_release(recording, version, is_training):
    tokenizer = bert_tf.FullTokenizer(recording.vocab)
    config = recording.config
    sha, unique_id, example_index = hashlib.sha256(), features.FIRST_UNIQUE_ID, 0
    source = reading.JsonSource(recording.data, "train_file")
    for paragraph in source.paragraphs():
        for _, windows, _ in features.convert(paragraph, tokenizer, config, is_training):
            for window in windows:
                row = described(window, tokenizer, config, unique_id, example_index)
                sha.update(json.dumps(row).encode())
                unique_id += 1
            example_index += 1
    kind = "train" if is_training else "eval"
    assert unique_id - features.FIRST_UNIQUE_ID == recording.settings[f"{kind}_features"]
    assert sha.hexdigest() == recording.settings[f"{kind}_sha256"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_those_of_the_release(recording, version):
    tokenizer = bert_tf.FullTokenizer(recording.vocab)
    starts, ends = recording.logits
    config = recording.config
    decoder = decoding.AnswerDecoder(config)
    source = reading.JsonSource(recording.data, "predict_file")
    row, predictions, n_best, null_odds = 0, {}, {}, {}
    for paragraph in source.paragraphs():
        for question, windows, _ in features.convert(paragraph, tokenizer, config, False):
            rows = range(row, row + len(windows))
            row += len(windows)
            logits = [window_logits(starts[i], ends[i], config.n_best_size) for i in rows]
            prediction = decoder.decode(windows, logits)
            predictions[question.id] = prediction.answer(config)
            n_best[question.id] = prediction.n_best()
            null_odds[question.id] = prediction.null_odds
    assert row == len(starts)

    expected = recording.answers
    assert list(predictions.items()) == list(expected["predictions"].items())
    assert list(n_best) == list(expected["nbest_predictions"])
    for name, entries in expected["nbest_predictions"].items():
        assert n_best[name] == [pytest.approx(x, abs=1e-6) for x in entries]
    if version == "v2":
        assert list(null_odds) == list(expected["null_odds"])
        assert null_odds == pytest.approx(expected["null_odds"], abs=1e-6)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_records_hold_the_windows_in_order(tmp_path, num_processes, monkeypatch):
    monkeypatch.setattr(features, "_CHUNK", 100)
    tokenizer = bert_tf.FullTokenizer(str(write_vocab(tmp_path)))
    source = reading.JsonSource(str(letters(tmp_path / "data.json", has_negative=True)), "x")
    config = QuestionAnsweringConfig(max_seq_length=12, max_query_length=4, doc_stride=3)
    for is_training in (True, False):
        made = features.make_features(
            source.paragraphs(), tokenizer, config, is_training, 0, "", num_processes
        )
        serialized = made.in_memory("x")
        convert = functools.partial(
            features.convert, tokenizer=tokenizer, config=config, is_training=is_training
        )
        windows = [w for p in source.paragraphs() for _, x, _ in convert(p) for w in x]
        assert made.counts["records"] == len(windows) > 15
        expected = records.serialize(
            records.SQUAD_TRAINING if is_training else records.SQUAD,
            [
                record_values(window, tokenizer.vocab, 12, features.FIRST_UNIQUE_ID + i)
                for i, window in enumerate(windows)
            ],
        )
        assert serialized == expected


def read(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_two_workers_answer_as_one(root, tmp_path, monkeypatch):
    data = letters(tmp_path / "data.json", has_negative=True)
    flags = [
        "--do_train", "--do_predict", "--do_eval", f"--train_file={data}",
        f"--predict_file={data}", "--version_2_with_negative", "--find_null_score_diff_threshold",
        "--eval_steps=30", "--best_metric=eval_f1", "--max_seq_length=12", "--max_query_length=4",
        "--doc_stride=3", "--train_batch_size=4", "--learning_rate=3e-3", "--max_answer_length=2",
        "--num_train_epochs=16", *write_model(tmp_path, initializer_range=0.2),
    ]  # fmt: skip
    one, two = tmp_path / "one", tmp_path / "two"
    processes = []
    for index, environment in enumerate(worker_environments()):
        monkeypatch.setenv("TF_CONFIG", environment)
        more = [f"--output_dir={two}", "--distribution_strategy=auto"]
        logs = tmp_path / f"worker{index}"
        processes.append(start_python(logs, root / "run_squad.py", *flags, *more))
    monkeypatch.delenv("TF_CONFIG")
    more = [f"--output_dir={one}", "--distribution_strategy=one_device"]
    processes.append(start_python(tmp_path / "single", root / "run_squad.py", *flags, *more))
    assert [process.wait(200) for process in processes] == [0, 0, 0], log(tmp_path / "worker0")
    assert "training: step 0 to 60" in log(tmp_path / "worker1")
    assert read(two / "predictions.json") == read(one / "predictions.json")
    results, odds = (
        [reader(folder / name) for folder in (two, one)]
        for reader, name in ((read_results, "eval_results.txt"), (read, "null_odds.json"))
    )
    found, expected = ({name: float(x) for name, x in values.items()} for values in results)
    assert found == pytest.approx(expected, abs=1e-3)
    assert odds[0] == pytest.approx(odds[1], abs=1e-3)
    threshold = read(one / "squad.json")["null_score_diff_threshold"]
    for folder in (two, two / "best"):
        saved = read(folder / "squad.json")["null_score_diff_threshold"]
        assert saved == pytest.approx(threshold, abs=1e-3)
    for name in ("train.tf_record", "eval.tf_record"):
        assert (two / name).read_bytes() == (one / name).read_bytes()
    assert "writing" not in log(tmp_path / "worker1"), "only the chief writes"
