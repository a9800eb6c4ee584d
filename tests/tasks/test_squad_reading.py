"""Questions from SQuAD JSON files and from tensorflow-datasets."""

import contextlib
import gzip
import itertools
import json

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering.examples import JsonSource, TfdsQuestions, validate_and_count
from tests.common import write_tfds
from tests.squad_helpers import dataset, letters


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "empty"),
        ('{"version": 1}', "line 1: context is missing"),
        ('{"data": {}}', "data is {}"),
        ('{"data": [{"a": 1},\n{"a" 2}', "line 2, character 6"),
        ('{"data": []}\n{', "line 2, character 1"),
        ('{"data": [\n["ab', "line 2, character 2.*truncated"),
        ('{"data": [' + "[" * 100_000, "line 1"),
        (b'{"data": ["caf\xe9"]}', "byte 14"),
        ('{"data": [{"paragraphs": [{"context": "", "qas": [{}]}]}]}', r"qas\[0\]: id is missing"),
    ],
)
def test_invalid_json_is_located(tmp_path, text, where):
    path = tmp_path / "data.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(bert_tf.UserError, match=rf"data\.json.*{where}"):
        list(JsonSource(str(path), "x").paragraphs())


@pytest.mark.parametrize(
    ("context", "text", "start"), [("a", "a", 4), ("a b", " ", 1), ("", "a", 0)]
)
def test_data_without_valid_questions(tmp_path, context, text, start):
    answers = [{"text": text, "answer_start": start}]
    qas = [{"id": "1", "question": "a", "answers": answers}]
    path = dataset(tmp_path / "data.json", [(context, qas)])
    with pytest.raises(bert_tf.UserError, match=f"{path}: no valid questions"):
        validate_and_count(JsonSource(str(path), "x"), "train")


def rows_of(path):
    """Return the questions of a file as rows of the `datasets` library."""
    for article in json.loads(path.read_text())["data"]:
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
    sources = [JsonSource(str(x), "train_file") for x in (path, original)]
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
        list(JsonSource(str(tmp_path / "rows.jsonl"), "x").paragraphs())


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
    ("answers", "is_impossible", "purpose", "version_2", "error"),
    [
        ((ANSWER,), False, "train", False, None),
        ((), True, "eval", True, None),
        (None, True, "train", True, None),
        (None, False, "train", False, "'answers'"),
        ((ANSWER, ANSWER), False, "train", False, "found 2 answers"),
        ((), False, "eval", False, "'answers'.*`version_2_with_negative`"),
        ((ANSWER,), True, "eval", False, "`version_2_with_negative`"),
    ],
)
def test_answers_that_a_purpose_needs(answers, is_impossible, purpose, version_2, error):
    question = reading.Question("f.json: qas[0]", "1", "x", answers, is_impossible)
    expectation = contextlib.nullcontext()
    if error:
        expectation = pytest.raises(bert_tf.UserError, match=rf"f\.json: qas\[0\]: .*{error}")
    with expectation:
        reading.check_answers(question, purpose, version_2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the same questions as a file, as squad/v1.1 and as squad/v2.0."""
    tfds = pytest.importorskip("tensorflow_datasets")
    folder = tmp_path_factory.mktemp("tfds")
    text = tfds.features.Text()
    answers = tfds.features.Sequence({"text": text, "answer_start": np.int32})
    features = {"id": np.str_, "title": text, "context": text, "question": text, "answers": answers}

    def make(name, path, **more):
        rows = [
            (x.id, "", paragraph.context, x.text,
             [{"text": text, "answer_start": start} for text, start in x.answers],
             x.is_impossible)[: len(features) + len(more)]
            for paragraph in JsonSource(str(path), "x").paragraphs()
            for x in paragraph.questions
        ]  # fmt: skip
        splits = {"train": rows, "validation": rows[:3]}
        write_tfds(folder, name, {**features, **more}, splits, version="3.0.0")

    make("squad/v1.1", letters(folder / "v1.json"))
    make("squad/v2.0", letters(folder / "v2.json", has_negative=True), is_impossible=np.bool_)
    write_tfds(folder, "other", {"context": text}, {"train": [("a",)]})
    return folder


def questions(source):
    return {
        (paragraph.context, *question[1:])
        for paragraph in source.paragraphs()
        for question in paragraph.questions
    }


@pytest.mark.parametrize(("config", "name"), [("v1.1", "v1"), ("v2.0", "v2")])
def test_tfds_questions_are_those_of_the_file(folder, config, name):
    expected = questions(JsonSource(str(folder / f"{name}.json"), "train_file"))
    source = TfdsQuestions(f"squad/{config}", "train", str(folder))
    paragraphs = list(source.paragraphs())
    assert {(p.context, *question[1:]) for p in paragraphs for question in p.questions} == expected
    # Consecutive questions share a paragraph.
    assert all(a.context != b.context for a, b in itertools.pairwise(paragraphs))
    assert sum(len(paragraph.questions) for paragraph in paragraphs) == len(expected)
    summary = validate_and_count(source, "train", config == "v2.0")
    assert summary.questions == len(expected)


def test_tfds_splits(folder):
    every = questions(TfdsQuestions("squad/v1.1", "train", str(folder)))
    validation = questions(TfdsQuestions("squad/v1.1", "dev", str(folder)))
    assert len(validation) == 3 and validation < every
    source = TfdsQuestions("squad/v1.1", "train", str(folder), "train[:20%]")
    assert 0 < len(questions(source)) < len(every)
    assert source.name == "squad/v1.1, train[:20%]"


def test_tfds_errors(folder):
    for name, split, error in (
        ("other", None, "other, train, example 0: id is missing"),
        ("squad", "none", "`tfds_splits`.* none"),
        ("squad/v2.0", None, r"squad/v2.0, train, example \d+ \(id \de\)"),
    ):
        with pytest.raises(bert_tf.UserError, match=error):
            source = TfdsQuestions(name, "train", str(folder), split)
            validate_and_count(source, "train")
