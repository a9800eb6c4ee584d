"""Questions about paragraphs, with their answers where there are any: from files of SQuAD."""

import hashlib
import json
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.question_answering.streaming_json import read_articles
from bert_tf.tasks.question_answering.words import Words
from bert_tf.tasks.rows import BadRows


class Answer(NamedTuple):
    """A text, and the character of the context that it begins at."""

    text: str
    start: int


class Question(NamedTuple):
    """A question; `answers` is None where the data say nothing of any."""

    where: str
    id: str
    text: str
    answers: tuple | None
    is_impossible: bool


class Paragraph(NamedTuple):
    """A context and the questions about it; `where` is its place, for errors."""

    where: str
    context: str
    questions: tuple


class JsonSource:
    """A file of SQuAD 1.1 or 2.0; `tfds.SpanSource` has the same methods.

    >>> for paragraph in JsonSource("dev-v2.0.json", "predict_file").paragraphs():
    ...     print(paragraph.context, paragraph.questions)
    """

    def __init__(self, path, flag):
        """Takes the file and the flag that named it; UserError if there is none."""
        self.name, self._flag = files.require(path, flag), flag

    def paragraphs(self):
        """Yields each `Paragraph`, one article in memory; UserError names what is wrong where."""
        for i, article in enumerate(read_articles(self.name)):
            yield from _paragraphs(article, f"{self.name}: data[{i}]")

    def parts(self):
        """Yields what other processes can open, by `opened`: (a part, its number of characters)."""
        for i, text in enumerate(read_articles(self.name, as_text=True)):
            yield (f"{self.name}: data[{i}]", text), len(text)

    @staticmethod
    def opened(part):
        """Yields each `Paragraph` of a part."""
        where, text = part
        return _paragraphs(json.loads(text), where)


_KINDS = {str: "a text", list: "a list", int: "a whole number", bool: "true or false"}


def _get(values, name, kind, where):
    """`values[name]`, which must be there and of that kind."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: an object was expected, found {_shown(values)}")
    if name not in values:
        raise UserError(f"{where}: {name!r} is missing; it has {', '.join(values) or 'nothing'}")
    value = values[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{where}: {name!r} must be {_KINDS[kind]}, found {_shown(value)}")
    return value


def _shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:40] + "..."


def _paragraphs(article, where):
    for j, paragraph in enumerate(_get(article, "paragraphs", list, where)):
        yield _paragraph(paragraph, f"{where}.paragraphs[{j}]")


def _paragraph(values, where):
    context = _get(values, "context", str, where)
    questions = []
    for k, question in enumerate(_get(values, "qas", list, where)):
        questions.append(_question(question, f"{where}.qas[{k}]"))
    return Paragraph(where, context, tuple(questions))


def _question(values, where):
    name = _get(values, "id", str, where)
    text = _get(values, "question", str, where)
    where = f"{where} (id {name})"
    answers = None
    if "answers" in values:
        answers = []
        for number, answer in enumerate(_get(values, "answers", list, where)):
            place = f"{where}.answers[{number}]"
            found = _get(answer, "text", str, place), _get(answer, "answer_start", int, place)
            answers.append(Answer(*found))
        answers = tuple(answers)
    is_impossible = answers == ()
    if "is_impossible" in values:
        is_impossible = _get(values, "is_impossible", bool, where)
    return Question(where, name, text, answers, is_impossible)


class Survey(NamedTuple):
    """What a set has: `questions` that can be used, and a digest of all that features come of."""

    questions: int
    digest: str


def survey(source, purpose, version_2_with_negative=False, by_offsets=False):
    """Goes through a set before anything is computed from it.

    Args:
      source: a `JsonSource` or a `tfds.SpanSource`.
      purpose: "train", whose answers are wanted; "eval", whose answers are compared with; or
        "predict", which needs none.
      version_2_with_negative: whether questions may have no answer.
      by_offsets: whether an answer must stand where it says to the character, or among the words
        there, as the release has it.

    Returns:
      `Survey`.

    Raises:
      UserError: says where what is wrong.
    """
    count, digest, ids = 0, hashlib.sha256(), set()
    astray, empty, negative = (BadRows(skip=True) for _ in range(3))
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
                if words.find(answer, by_offsets) is None:
                    astray(f"{question.where}: {_shown(answer.text)} at character {answer.start}")
                    continue
            digest.update(json.dumps(question[1:]).encode())
            count += 1
    astray.report("questions left out, whose answers are not in the context")
    empty.report("paragraphs without text")
    negative.report("questions without an answer get one without `version_2_with_negative`")
    if not count:
        left = f"; {astray.first}" if astray.count else ""
        raise UserError(f"{source.name}: there is not a single question to use{left}")
    console.info("%s: %d questions", source.name, count)
    return Survey(count, digest.hexdigest())


def check_answers(question, purpose, version_2_with_negative):
    """Raises UserError if a question has not the answers that `purpose` needs, as in `survey`."""
    if purpose == "predict":
        return
    if purpose == "eval" and question.answers == () and not version_2_with_negative:
        raise UserError(
            f"{question.where}: 'answers' is empty, and there is nothing to score by; questions of "
            "SQuAD 2.0 want `version_2_with_negative`"
        )
    if question.answers is None and not question.is_impossible:
        raise UserError(f"{question.where}: 'answers' is missing")
    if question.is_impossible and not version_2_with_negative:
        raise UserError(
            f"{question.where}: it has no answer; questions of SQuAD 2.0 want "
            "`version_2_with_negative`"
        )
    if purpose == "train" and not question.is_impossible and len(question.answers) != 1:
        raise UserError(
            f"{question.where}: exactly one answer is wanted for training, found "
            f"{len(question.answers)}"
        )
