"""Read and validate questions from SQuAD files and tensorflow-datasets."""

import gc
import hashlib
import itertools
import json
import operator
from typing import NamedTuple

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.rows import BadRows, TfdsRows
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files, json_files
from bert_tf.io.json_files import quoted
from bert_tf.tasks.question_answering.alignment import Words


class Answer(NamedTuple):
    """The text of an answer and the offset of its first character in the context."""

    text: str
    start: int


class Question(NamedTuple):
    """A question; `answers` is None for unlabeled data, and `where` its location for messages."""

    where: str
    id: str
    text: str
    answers: tuple | None
    is_impossible: bool


class Paragraph(NamedTuple):
    """A context and the questions about it; `where` is its location, for error messages."""

    where: str
    context: str
    questions: tuple


class JsonSource:
    """The questions of a file in SQuAD's format or in the format of a Hugging Face dataset.

    The latter is JSON lines, JSON or Parquet with one question per row. The columns are `id`,
    `context`, `question` and `answers`, which has the lists `text` and `answer_start`.
    """

    def __init__(self, path, argument):
        """Raise UserError, naming `argument`, if the file does not exist."""
        self.name = files.require(path, argument)

    def paragraphs(self):
        """Yield each `Paragraph`; raise UserError with the location if the file is invalid."""
        articles = _read_articles(self.name)
        if isinstance(articles, tables.TableFormat):
            yield from _paragraphs_of_rows(self.name, articles)
            return
        gc.freeze()  # otherwise, garbage collection of the articles takes a sixth of the time
        try:
            for i, article in enumerate(articles):
                where = f"{self.name}: data[{i}]"
                for j, paragraph in enumerate(_get(article, "paragraphs", list, where)):
                    yield _paragraph(paragraph, f"{where}.paragraphs[{j}]")
        finally:
            gc.unfreeze()


def _read_articles(path):
    """Return the list "data" of a SQuAD file, or the `TableFormat` of a file of rows."""
    if tables.ENDINGS.get(tables.file_extension(path)) == "parquet":
        return tables.TableFormat("parquet")
    text = files.read_text(path)
    try:
        values = json_files.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and _is_row(json_files.loads(text[: error.pos])):
            return tables.TableFormat("json_lines")
        is_open = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        hint = "; the file may be truncated" if is_open else ""
        raise UserError(
            f"{path}, line {error.lineno}, character {error.colno}: invalid JSON: {error.msg}{hint}"
        ) from None
    if _is_row(values):
        return tables.TableFormat("json_lines")
    if isinstance(values, list) and values and _is_row(values[0]):
        return tables.TableFormat("json")
    return _get(values, "data", list, path)


def _is_row(values):
    return isinstance(values, dict) and "context" in values and "data" not in values


def _paragraphs_of_rows(path, table_format):
    """Yield a `Paragraph` for each run of consecutive rows with the same context."""
    rows = tables.read_rows(path, table_format)
    names = next(rows)[1]

    def read(number, cells, problem):
        where = f"{path}, {table_format.unit} {number}"
        if problem:
            raise UserError(f"{where}: {problem}")
        pairs = zip(names, cells, strict=True)
        values = {name: value for name, value in pairs if value is not None}
        return _get(values, "context", str, where), _question(values, where)

    pairs = itertools.starmap(read, rows)
    for context, group in itertools.groupby(pairs, operator.itemgetter(0)):
        questions = tuple(question for _, question in group)
        yield Paragraph(questions[0].where, context, questions)


def _get(values, key, kind, where):
    """Return `values[key]`; raise UserError if it is missing or of a different type."""
    value = values.get(key) if isinstance(values, dict) else None
    if type(value) is not kind:
        raise UserError(f"{where}: {json_files.problem(values, {key: kind}).removeprefix('.')}")
    if kind is str:
        check_unicode(value, f"{where}: {key!r}")
    return value


def _paragraph(values, where):
    context = _get(values, "context", str, where)
    questions = enumerate(_get(values, "qas", list, where))
    questions = tuple(_question(question, f"{where}.qas[{k}]") for k, question in questions)
    return Paragraph(where, context, questions)


def _question(values, where):
    question_id = values.get("id") if isinstance(values, dict) else None
    if type(question_id) is int:  # not in SQuAD, but some tools write it
        values = {**values, "id": str(question_id)}
    question_id = _get(values, "id", str, where)
    text = _get(values, "question", str, where)
    where = f"{where} (id {question_id})"
    answers = None
    if "answers" in values:
        if isinstance(values["answers"], dict):
            values = {**values, "answers": _answer_list(values["answers"], f"{where}.answers")}
        given = enumerate(_get(values, "answers", list, where))
        answers = tuple(_answer(answer, f"{where}.answers[{n}]") for n, answer in given)
    is_impossible = answers == ()
    if "is_impossible" in values:
        is_impossible = _get(values, "is_impossible", bool, where)
    return Question(where, question_id, text, answers, is_impossible)


def _answer_list(lists, where):
    """Convert the answers of Hugging Face datasets, a dict of two lists, to a list of dicts."""
    texts, starts = (_get(lists, name, list, where) for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise UserError(
            f"{where}: found {len(starts)} items in 'answer_start', expected {len(texts)} as in "
            "'text'"
        )
    pairs = zip(texts, starts, strict=True)
    return [{"text": text, "answer_start": start} for text, start in pairs]


def _answer(values, where):
    return Answer(_get(values, "text", str, where), _get(values, "answer_start", int, where))


_TFDS_SPLITS = {"train": "train", "predict": "validation"}
_TFDS_FEATURES = ("id", "context", "question", "answers")


class TfdsQuestions:
    """The questions of a split in tensorflow-datasets, with the methods of `JsonSource`."""

    def __init__(self, name, split, data_dir=None, tfds_split=None):
        """Find the dataset, such as "squad/v1.1", and prepare it if necessary."""
        self._rows, self._split = TfdsRows(name, data_dir), tfds_split or _TFDS_SPLITS[split]
        self.name = f"{name}, {self._split}"
        missing = [feature for feature in _TFDS_FEATURES if feature not in self._rows.features]
        if missing:
            raise UserError(
                f"`tfds_name={name}`: found the features {', '.join(self._rows.features)}, "
                f"expected also {', '.join(missing)}"
            )

    def paragraphs(self):
        """Yield each `Paragraph`; `where` is the location of its first question."""
        for context, pairs in itertools.groupby(self._pairs(), operator.itemgetter(0)):
            questions = tuple(question for _, question in pairs)
            yield Paragraph(questions[0].where, context, questions)

    def _pairs(self):
        for where, row in self._rows.read(self._split):
            try:
                yield row["context"].decode("utf-8"), _tfds_question(row, where)
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: not UTF-8 text ({error})") from None


def _tfds_question(row, where):
    question_id = row["id"].decode("utf-8")
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    answers = tuple(
        Answer(text.decode("utf-8"), int(start)) for text, start in zip(texts, starts, strict=True)
    )
    is_impossible = bool(row.get("is_impossible", not answers))
    text = row["question"].decode("utf-8")
    return Question(f"{where} (id {question_id})", question_id, text, answers, is_impossible)


class DatasetSummary(NamedTuple):
    """The number of valid questions, and a digest of everything that affects the features."""

    questions: int
    digest: str


def validate_and_count(source, purpose, version_2_with_negative=False, by_offsets=False):
    """Validate all questions of a source and return its `DatasetSummary`.

    `purpose` is "train" (one answer per question), "eval" (any number of answers) or "predict"
    (answers are ignored).

    Raises:
      UserError: if a question is invalid; names its location.
    """
    count, digest, ids = 0, hashlib.sha256(), set()
    misplaced, empty, negative = (BadRows(skip=True) for _ in range(3))
    for paragraph in source.paragraphs():
        words = Words(paragraph.context)
        digest.update(json.dumps(paragraph.context).encode())
        if not words.texts:
            empty(f"{paragraph.where}: the context is empty")
        for question in paragraph.questions:
            if purpose != "train":
                if question.id in ids:
                    raise UserError(f"{question.where}: an earlier question has the same id")
                ids.add(question.id)
            check_answers(question, purpose, version_2_with_negative)
            if question.is_impossible and not version_2_with_negative:
                negative(question.where)
            if purpose == "train" and not question.is_impossible:
                (answer,) = question.answers
                if words.find_answer(answer, by_offsets) is None:
                    text = quoted(answer.text)
                    misplaced(f"{question.where}: {text} at character {answer.start}")
                    continue
            digest.update(json.dumps(question[1:]).encode())
            count += 1
    misplaced.report("questions skipped because their answer is not in the context")
    empty.report("paragraphs without text")
    negative.report("unanswerable questions, which are answered without `version_2_with_negative`")
    if not count:
        example = f"; {misplaced.first}" if misplaced.count else ""
        raise UserError(f"{source.name}: no valid questions{example}")
    console.info("%s: %d questions", source.name, count)
    return DatasetSummary(count, digest.hexdigest())


def check_answers(question, purpose, version_2_with_negative):
    """Raise UserError if a question lacks the answers that `purpose` requires."""
    if purpose == "predict":
        return
    if purpose == "eval" and question.answers == () and not version_2_with_negative:
        raise UserError(
            f"{question.where}: 'answers' is empty, so predictions cannot be scored; SQuAD 2.0 "
            "requires `version_2_with_negative`"
        )
    if question.answers is None and not question.is_impossible:
        raise UserError(f"{question.where}: 'answers' is missing")
    if question.is_impossible and not version_2_with_negative:
        raise UserError(
            f"{question.where}: the question has no answer; SQuAD 2.0 requires "
            "`version_2_with_negative`"
        )
    if purpose == "train" and not question.is_impossible and len(question.answers) != 1:
        raise UserError(
            f"{question.where}: found {len(question.answers)} answers, expected exactly one for "
            "training"
        )
