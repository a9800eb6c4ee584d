"""Questions: from SQuAD files, tables and tensorflow-datasets."""

import functools
import hashlib
import itertools
import json
import operator
import re
from typing import NamedTuple

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.columns import RowWarnings, header_and_rows
from bert_tf.data.tfds import TfdsDataset
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files, json_files
from bert_tf.io.json_files import quoted
from bert_tf.tasks.question_answering.alignment import Words


class Answer(NamedTuple):
    """The text of an answer and the offset of its first character in the context."""

    text: str
    start: int

    @property
    def is_exact(self):
        """Whether white space must be as in the context; the release splits at it."""
        return isinstance(self, ExactAnswer)


class ExactAnswer(Answer):
    """An `Answer` as it is in the context, with any white space."""


# Two letters or digits of a script that separates words; the range contains Chinese and Japanese.
_WITHIN_WORD = re.compile(r"[^\W\u2e80-\u9fff]{2}")


def _pattern(text):
    """Return the regular expression of a text with any white space."""
    return r"\s+".join(map(re.escape, text.split()))


def _find(text, context):
    """Return the `Answer` at the first match that splits no word, else at the first match."""

    def splits_word(match):
        return any(i and _WITHIN_WORD.match(context, i - 1) for i in match.span(1))

    # The lookahead finds overlapping matches.
    match = min(re.finditer(f"(?=({_pattern(text)}))", context), key=splits_word, default=None)
    # No text is found at the end of the context, so the question is skipped.
    return Answer(match[1], match.start()) if match else Answer(text, len(context))


class Question(NamedTuple):
    """A question; `answers` is None for unlabeled data, and `where` its location for messages."""

    where: str
    id: str
    text: str
    answers: tuple | None
    is_impossible: bool


def with_exact_answer(context, question):
    """Return the context and the question with its first answer, exact if it is in the context."""
    answers = question.answers[:1]
    for text, start in answers:
        if match := re.compile(_pattern(text)).match(context, start):
            answers = (ExactAnswer(match[0], match.start()),)
    return context, question._replace(answers=answers)


class Paragraph(NamedTuple):
    """A context and the questions about it; `where` is its location, for error messages."""

    where: str
    context: str
    questions: tuple


class Questions:
    """The questions of a split.

    Attributes:
      name: the file or dataset, for messages.
      paragraphs: a function that reads the questions and yields each `Paragraph`.
      summary: the `DatasetSummary`, once the questions have been counted.
    """

    def __init__(self, name, paragraphs):
        self.name, self.paragraphs, self.summary = name, paragraphs, None


def json_questions(path, argument):
    """Return the `Questions` of a file in the format of SQuAD or of a Hugging Face dataset.

    The latter is JSON lines, JSON or Parquet with one question per row. The columns are `id`,
    `context`, `question` and `answers`, which has the lists `text` and `answer_start`.

    Raises:
      UserError: if the file does not exist; names `argument`.
    """
    path = files.require(path, argument)
    return Questions(path, functools.partial(_read_paragraphs, path))


def _read_paragraphs(path):
    """Yield each `Paragraph`; raise UserError with the location if the file is invalid."""
    articles = _read_articles(path)
    if isinstance(articles, tables.TableFormat):
        rows = tables.read_rows(path, articles)
        yield from _paragraphs_of_table(tables.Table(path, articles, rows))
        return
    for i, article in enumerate(articles):
        where = f"{path}: data[{i}]"
        for j, paragraph in enumerate(_get(article, "paragraphs", list, where)):
            yield _paragraph(paragraph, f"{where}.paragraphs[{j}]")


def _read_articles(path):
    """Return the list "data" of a SQuAD file, or the `TableFormat` of other files, of rows."""
    if tables.find_format(path, "tab").kind == "parquet":
        return tables.TableFormat("parquet")
    text = files.read_text(path)
    try:
        values = json_files.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and _is_row(json_files.loads(text[: error.pos])):
            return tables.TableFormat("json_lines")
        is_open = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        hint = "; the file may be truncated" if is_open else ""
        place = f"{path}, line {error.lineno}, character {error.colno}"
        raise UserError(f"{place}: invalid JSON: {error.msg}{hint}") from None
    if isinstance(values, list):
        return tables.TableFormat("json")
    return tables.TableFormat("json_lines") if _is_row(values) else _get(values, "data", list, path)


def _is_row(value):
    return isinstance(value, dict) and "data" not in value


def question_of_row(where, row):
    """Return (context, `Question`) for a place and a dict, or a str that describes a bad row."""
    if isinstance(row, str):
        raise UserError(f"{where}: {row}")
    values = {name: value for name, value in row.items() if value is not None}
    context = _get(values, "context", str, where)
    return context, _question(values, context, where)


def group_by_context(pairs):
    """Yield a `Paragraph` for each run of consecutive (context, `Question`) with one context."""
    for context, group in itertools.groupby(pairs, operator.itemgetter(0)):
        questions = tuple(question for _, question in group)
        yield Paragraph(questions[0].where, context, questions)


def _paragraphs_of_table(table):
    return group_by_context(itertools.starmap(question_of_row, header_and_rows(table)[2]))


def _get(values, key, kind, where):
    """Return `values[key]`; raise UserError if it is missing or of a different type."""
    value = values.get(key) if isinstance(values, dict) else None
    if type(value) is not kind:
        json_files.check(values, {key: kind}, f"{where}: ", name="the value")
    if kind is str:
        check_unicode(value, f"{where}: {key!r}")
    return value


def _paragraph(values, where):
    context = _get(values, "context", str, where)
    questions = enumerate(_get(values, "qas", list, where))
    questions = (_question(x, context, f"{where}.qas[{k}]") for k, x in questions)
    return Paragraph(where, context, tuple(questions))


def _question(values, context, where):
    question_id = values.get("id") if isinstance(values, dict) else None
    if type(question_id) is int:  # not in SQuAD, but some tools write it
        values = {**values, "id": str(question_id)}
    question_id = _get(values, "id", str, where)
    text = _get(values, "question", str, where)
    where += "" if where.startswith("`") else f" (id {question_id})"  # of a file
    answers = None
    if values.get("answers") is not None:
        answers = tuple(_answers(values["answers"], context, f"{where}.answers"))
    is_impossible = answers == ()
    if "is_impossible" in values:
        is_impossible = _get(values, "is_impossible", bool, where)
    return Question(where, question_id, text, answers, is_impossible)


def _answers(value, context, where):
    """Yield the `Answer`s of a cell, which is a list of answers or a single one.

    An answer is a text, located by its first occurrence in the context that splits no word, else by
    its first occurrence; (text, start); a dict of these, or of two lists of them, as in SQuAD; or
    None, NaN or "" for none.
    """
    names = "text", "answer_start"
    match value:
        case {"text": list()}:
            texts, starts = (_get(value, name, list, where) for name in names)
            if len(texts) != len(starts):
                raise UserError(f"{where}: 'text' and 'answer_start' have different lengths")
            value = [dict(zip(names, x, strict=True)) for x in zip(texts, starts, strict=True)]
        case str(text):
            value = dict(zip(names, _find(text, context), strict=True)) if text.strip() else []
        case [str(text), int() | float() as start]:
            value = {"text": text, "answer_start": start}
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _answers(item, context, f"{where}[{i}]")
    elif value is not None and value == value:
        value = value if isinstance(value, dict) else {"text": value}
        yield Answer(_get(value, "text", str, where), _get(value, "answer_start", int, where))


def tfds_questions(name, split, data_dir=None, tfds_split=None):
    """Return the `Questions` of a dataset such as "squad/v1.1"; prepare it if necessary."""
    data = TfdsDataset(name, data_dir, {split: tfds_split})
    return Questions(data.table(split).name, lambda: _paragraphs_of_table(data.table(split)))


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
    count, ids = 0, set()
    digest = hashlib.sha256()
    misplaced, empty, negative = (RowWarnings() for _ in range(3))
    for paragraph in source.paragraphs():
        words = Words(paragraph.context)
        digest.update(json.dumps(paragraph.context).encode())
        if not words.texts:
            empty.add(f"{paragraph.where}: the context is empty")
        for question in paragraph.questions:
            if purpose != "train":
                if question.id in ids:
                    raise UserError(f"{question.where}: an earlier question has the same id")
                ids.add(question.id)
            if not question.text.strip():
                empty.add(f"{question.where}: the question is empty")
            check_answers(question, purpose, version_2_with_negative)
            if question.is_impossible and not version_2_with_negative:
                negative.add(question.where)
            if purpose == "train" and not question.is_impossible:
                (answer,) = question.answers
                if words.find_answer(answer, by_offsets) is None:
                    start = answer.start
                    is_found = answer.text in paragraph.context
                    cause = f" at character {start}" if is_found else " is not in the context"
                    is_there = paragraph.context.startswith(answer.text, start)
                    if answer.text.strip() and is_there and not by_offsets:
                        cause += "; `answer_alignment=offsets` finds it despite its white space"
                    misplaced.add(f"{question.where}: {quoted(answer.text)}{cause}")
                    continue
            digest.update(json.dumps(question[1:]).encode())
            count += 1
    misplaced.report("questions skipped because their answer is not in the context")
    empty.report("empty questions or contexts")
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
    if question.answers is None and not question.is_impossible:
        raise UserError(f"{question.where}: 'answers' is missing")
    has_none = question.is_impossible or (purpose == "eval" and not question.answers)
    if has_none and not version_2_with_negative:
        found = "the question has no answer, by 'answers' or 'is_impossible'"
        raise UserError(f"{question.where}: {found}; SQuAD 2.0 requires `version_2_with_negative`")
    if purpose == "train" and not question.is_impossible and len(question.answers) != 1:
        found = f"found {len(question.answers)} answers, expected exactly one for training"
        raise UserError(f"{question.where}: {found}")


def make_source(data, split):
    """Return the `Questions` of "train" or "dev", given `QuestionAnsweringData`."""
    argument = "train_file" if split == "train" else "predict_file"
    if data.tfds_name:
        splits = data.tfds_splits or (None, None)
        if len(splits) != 2:
            expected = "expected two, for training and prediction"
            raise UserError(f"`tfds_splits`: found {len(splits)} splits, {expected}")
        return tfds_questions(data.tfds_name, split, data.tfds_data_dir, splits[split != "train"])
    path = getattr(data, argument)
    if not path:
        raise UserError(f"`{argument}` or `tfds_name` must be given")
    return json_questions(path, argument)
