"""SQuAD: questions of files, windows and answers equal the release's, tokens of answers."""

import functools
import gzip
import hashlib
import itertools
import json

import numpy as np
import pytest

import bert_tf
from bert_tf.data import records
from bert_tf.tasks.question_answering import alignment, decoding, features
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering.examples import (
    Answer,
    json_questions,
    tfds_questions,
    validate_and_count,
)
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from tests.common import WORDS, read_results, write_model, write_tfds, write_vocab
from tests.squad_helpers import dataset, letters, record_values, window_logits
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
    source = reading.json_questions(recording.data, "train_file")
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
    source = reading.json_questions(recording.data, "predict_file")
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
    source = reading.json_questions(str(letters(tmp_path / "data.json", has_negative=True)), "x")
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


# Questions of SQuAD JSON files, of rows, and of tensorflow-datasets.


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "empty"),
        ('{"version": 1}', "line 1: context is missing"),
        ('{"data": {}}', "data is {}"),
        ('{"data": [{"a": 1},\n{"a" 2}', "line 2, character 6"),
        ('{"data": []}\n{', "line 2, character 1"),
        ('{"data": [\n["ab', "line 2, character 2.*truncated"),
        (b'{"data": ["caf\xe9"]}', "byte 14"),
        ('{"data": [{"paragraphs": [{"context": "", "qas": [{}]}]}]}', r"qas\[0\]: id is missing"),
    ],
)
def test_invalid_json_is_located(tmp_path, text, where):
    path = tmp_path / "data.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(bert_tf.UserError, match=rf"data\.json.*{where}"):
        list(json_questions(str(path), "x").paragraphs())


@pytest.mark.parametrize(
    ("context", "text", "start"), [("a", "a", 4), ("a b", " ", 1), ("", "a", 0)]
)
def test_data_without_valid_questions(tmp_path, context, text, start):
    answers = [{"text": text, "answer_start": start}]
    qas = [{"id": "1", "question": "a", "answers": answers}]
    path = dataset(tmp_path / "data.json", [(context, qas)])
    with pytest.raises(bert_tf.UserError, match=f"{path}: no valid questions"):
        validate_and_count(json_questions(str(path), "x"), "train")


def rows_of(path):
    """Return the questions of a file as rows of the `datasets` library."""
    for article in read(path)["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = question["answers"]
                lists = {name: [x[name] for x in answers] for name in ("text", "answer_start")}
                row = {"title": "x", "context": paragraph["context"], **question, "answers": lists}
                row.pop("is_impossible", None)
                yield row


@pytest.mark.parametrize("has_negative", [False, True])
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.jsonl.gz", "rows.data"])
def test_rows_of_the_library_datasets(tmp_path, name, has_negative):
    original, path = letters(tmp_path / "original.json", has_negative), tmp_path / name
    rows = list(rows_of(original))
    text = json.dumps(rows) if name == "rows.json" else "\n".join(map(json.dumps, rows))
    if name == "rows.data":  # recognized by its content
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    sources = [json_questions(str(x), "train_file") for x in (path, original)]
    paragraphs, expected = (list(source.paragraphs()) for source in sources)
    assert questions(sources[0]) == questions(sources[1])
    assert [len(x.questions) for x in paragraphs] == [len(x.questions) for x in expected]
    summaries = [validate_and_count(source, "train", has_negative) for source in sources]
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id": None}, "id is missing"),
        ({"answers": {"text": ["a"]}}, r"\(id 0d\)\.answers: answer_start is missing"),
        ({"answers": {"text": ["a"], "answer_start": []}}, "answer_start"),
        ({"answers": ["b", 0.5]}, "answer_start is 0.5"),
    ],
)
def test_invalid_rows_are_located(tmp_path, changes, named):
    rows = list(rows_of(letters(tmp_path / "original.json")))
    rows[1] = {**rows[1], **changes}
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(bert_tf.UserError, match=rf"rows\.jsonl, line 2.*{named}"):
        list(json_questions(str(tmp_path / "rows.jsonl"), "x").paragraphs())


def test_texts_are_located_by_whole_words():
    for context, answers, expected in (
        ("The inn stands in Bonn.", "in", [("in", 15)]),
        (
            "1905, 5.5 or 5",
            ["5", "05", "or  5", "x"],
            [("5", 6), ("05", 2), ("or 5", 10), ("x", 14)],
        ),
        ("ba a a", ("a a", "b"), [("a a", 3), ("b", 0)]),
        ("他在北京在，在", "在", [("在", 1)]),
    ):
        row = {"id": 1, "question": "?", "context": context, "answers": answers}
        question = reading.question_of_row("`answers`", row)[1]
        assert question.id == "1" and list(question.answers) == expected


ANSWER = reading.Answer("a", 0)


@pytest.mark.parametrize(
    ("answers", "is_impossible", "purpose", "error"),
    [
        (None, False, "train", "'answers'"),
        ((ANSWER, ANSWER), False, "train", "found 2 answers"),
        ((), False, "eval", "'answers'.*`version_2_with_negative`"),
        ((ANSWER,), True, "eval", "`version_2_with_negative`"),
    ],
)
def test_answers_that_a_purpose_needs(answers, is_impossible, purpose, error):
    question = reading.Question("f.json: qas[0]", "1", "x", answers, is_impossible)
    with pytest.raises(bert_tf.UserError, match=rf"f\.json: qas\[0\]: .*{error}"):
        reading.check_answers(question, purpose, False)
    unanswerable = question._replace(answers=None, is_impossible=True)
    reading.check_answers(unanswerable, "train", True)
    reading.check_answers(unanswerable._replace(answers=()), "eval", True)


def questions(source):
    return {
        (paragraph.context, *question[1:])
        for paragraph in source.paragraphs()
        for question in paragraph.questions
    }


def test_tfds_questions_are_those_of_the_file(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    file, text = json_questions(str(letters(tmp_path / "v2.json", True)), "x"), tfds.features.Text()
    answers = tfds.features.Sequence({"text": text, "answer_start": np.int32})
    features = {"id": np.str_, "title": text, "context": text, "question": text,
                "answers": answers, "is_impossible": np.bool_}  # fmt: skip
    rows = [
        (x.id, "", paragraph.context, x.text,
         [{"text": text, "answer_start": start} for text, start in x.answers], x.is_impossible)
        for paragraph in file.paragraphs()
        for x in paragraph.questions
    ]  # fmt: skip
    splits = {"train": rows, "validation": rows[:3]}
    write_tfds(tmp_path, "squad/v2.0", features, splits, version="3.0.0")
    source = tfds_questions("squad/v2.0", "train", str(tmp_path))
    assert questions(source) == questions(file)
    # Consecutive questions share a paragraph.
    paragraphs = list(source.paragraphs())
    assert all(a.context != b.context for a, b in itertools.pairwise(paragraphs))
    assert sum(len(paragraph.questions) for paragraph in paragraphs) == len(rows)
    assert validate_and_count(source, "train", True).questions == len(rows)
    with pytest.raises(bert_tf.UserError, match=r"squad/v2.0, train, example \d+ \(id \de\)"):
        validate_and_count(source, "train")
    source = tfds_questions("squad/v2.0", "dev", str(tmp_path), "validation[:2]")
    assert len(questions(source)) == 2 and source.name == "squad/v2.0, validation[:2]"
    write_tfds(tmp_path, "other", {"context": text}, {"train": [("a",)]})
    with pytest.raises(bert_tf.UserError, match="other, train, example 0: id is missing"):
        list(tfds_questions("other", "train", str(tmp_path)).paragraphs())


# Alignment of answers and tokens, by words as in the release and by characters.


@pytest.fixture
def tokenizer(tmp_path):
    hangul = ["\u1112", "##\u1161", "##\u11ab"]
    words = [*WORDS, *"([.,:-)]", "##d", "##e", *hangul]
    return bert_tf.FullTokenizer(str(write_vocab(tmp_path, words)))


@pytest.mark.parametrize(
    ("context", "first", "last", "by_words", "by_characters"),
    [
        # Both alignments find the answer within the words.
        ("a (B-C), d", 2, 4, "B-C", "B-C"),
        ("A\u00c9 b", 0, 1, "A\u00c9", "A\u00c9"),  # a composed accented character
        # The release joins words with one space.
        ("a  b\tc", 0, 2, "a b c", "a  b\tc"),
        ("a\u00a0b c", 0, 1, "a\u00a0b", "a\u00a0b"),
        # The tokenizer removes or splits these characters.
        ("(a\u200bb)", 1, 2, "(a\u200bb)", "a\u200bb"),
        ("(\ud55c) a", 1, 3, "(\ud55c)", "\ud55c"),
        ("(e\u0301) a", 1, 1, "(e\u0301)", "e\u0301"),
        # A token outside the vocabulary.
        ("a-x b", 0, 2, "a-x", "a-x"),
        # The first occurrence of the text rather than the token's.
        ("a.da", 3, 3, "a", "a"),
    ],
)
def test_text_of_tokens(tokenizer, context, first, last, by_words, by_characters):
    context = alignment.Context(context, tokenizer)
    assert context.token_text(first, last, by_offsets=False)[0] == by_words
    assert context.token_text(first, last, by_offsets=True) == (by_characters, None)


@pytest.mark.parametrize(
    ("context", "answer", "by_words", "by_characters"),
    [
        ("a (B-C), d", Answer("B-C", 3), (2, 4), (2, 4)),
        ("a ab", Answer("b", 3), (1, 2), (2, 2)),  # "##b" is not the token "b"
        ("a.a", Answer("a", 2), (0, 0), (2, 2)),  # the first equal token
        ("a b", Answer("c", 0), None, None),
        ("a b", Answer("b", -1), None, None),
        ("a  b", Answer("a  b", 0), (0, 1), (0, 1)),
        ("a  b", Answer("a b", 0), None, None),
        ("a\u00a0b", Answer("a\u00a0b", 0), None, (0, 1)),
    ],
)
def test_tokens_of_an_answer(tokenizer, context, answer, by_words, by_characters):
    context = alignment.Context(context, tokenizer)
    assert context.find_answer_tokens(answer, by_offsets=False) == by_words
    assert context.find_answer_tokens(answer, by_offsets=True) == by_characters
