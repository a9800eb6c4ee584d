"""Examples of text classification from tab-separated files."""

import dataclasses
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError, reason


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts and, outside a test set, their label; `where` is file and line."""

    where: str
    text_a: str
    text_b: str | None = None
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where a file has its texts and labels, counted from 0; a header line is skipped."""

    text_a: int
    text_b: int | None = None
    label: int | None = None
    header: bool = False


@dataclasses.dataclass(frozen=True)
class TsvTask:
    """A task kept in `train.tsv`, `dev.tsv` and `test.tsv`.

    `labels` are in the order of their ids; None stands for those of `train.tsv`, sorted. `labelled`
    and `test` are the layouts; None stands for `find_columns`.
    """

    labels: tuple | None = None
    labelled: Columns | None = None
    test: Columns | None = None


# A further task is one more line here.
TASKS = {
    "cola": TsvTask(("0", "1"), Columns(text_a=3, label=1), Columns(text_a=1, header=True)),
    "mrpc": TsvTask(
        ("0", "1"),
        Columns(text_a=3, text_b=4, label=0, header=True),
        Columns(text_a=3, text_b=4, header=True),
    ),
    "tsv": TsvTask(),
}


def find_task(name):
    """Returns the task of `--task_name`; UserError lists those there are."""
    task = TASKS.get(name.lower())
    if task is None:
        raise UserError(f"--task_name: {name!r} is not one of {', '.join(sorted(TASKS))}")
    return task


def read_examples(task, data_dir, split):
    """Reads one file of a task.

    Args:
      task: a `TsvTask`.
      data_dir: the folder of its files.
      split: "train", "dev" or "test". Test examples come without labels.

    Returns:
      List of `Example`.

    Raises:
      UserError: names file and line of a missing column, or the missing file.
    """
    path = files.require(os.path.join(data_dir, f"{split}.tsv"), "data_dir")
    columns = task.test if split == "test" else task.labelled
    rows = _rows(path)
    if columns is None:
        rows = list(rows)
        train = os.path.join(data_dir, "train.tsv")
        has_train = split == "test" and tf.io.gfile.exists(train)
        pattern = next(_rows(train), None) if has_train else None
        columns = find_columns(path, rows, split, pattern and len(pattern[1]))
    examples = [
        _example(path, number, row, columns, with_label=split != "test")
        for number, row in rows
        if not (columns.header and number == 1)
    ]
    if not examples:
        raise UserError(f"{path}: there is not a single example in it")
    return examples


def labels_of(examples):
    """The different labels, sorted: as numbers if all are whole numbers, else as text."""
    labels = {example.label for example in examples}
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))


# The names by which a header line is known: those of our files, and of GLUE's.
_TEXT_A = ("text", "text_a", "sentence", "sentence1")
_TEXT_B = ("text_b", "sentence2")
_HEADER = (*_TEXT_A, *_TEXT_B, "label", "index", "id")


def find_columns(path, rows, split, train_columns=None):
    """Finds the layout of a file of one's own, and says what it found.

    With a header line that names them, columns are `text` (or `text_a`, `sentence`, `sentence1`),
    optionally `text_b` (or `sentence2`), and `label`, in any order among others. Without one they
    are: text, label; or text_a, text_b, label. A test file may come without its label column.

    Args:
      path: of the file, for messages.
      rows: list of (line number, fields).
      split: "train", "dev" or "test".
      train_columns: how many columns `train.tsv` has, if that is known: a test file with one fewer
        has no labels.

    Returns:
      `Columns`.
    """
    if not rows:
        return Columns(text_a=0)
    names = [name.strip().lower() for name in rows[0][1]]
    if any(name in _HEADER for name in names):
        found = {
            what: next((names.index(name) for name in known if name in names), None)
            for what, known in (("text_a", _TEXT_A), ("text_b", _TEXT_B), ("label", ("label",)))
        }
        if found["text_a"] is None:
            raise UserError(
                f"{path}, line 1: the header {names} has no column {', '.join(_TEXT_A[:-1])} or "
                f"{_TEXT_A[-1]}"
            )
        if found["label"] is None and split != "test":
            raise UserError(f"{path}, line 1: the header has no column `label`, only {names}")
        return Columns(**found, header=True)
    count = len(names)
    kinds = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}.get(count)
    if split == "test" and train_columns == count + 1:
        kinds = ("text_a", "text_b")[:count] if count > 1 else ("text",)
    elif kinds is None or (count == 1 and split != "test"):
        raise UserError(
            f"{path}, line 1: {count} columns without a header; expected text, label or text_a, "
            "text_b, label, or a header line with these names"
        )
    console.info("%s: no header line, so its columns are taken as %s", path, ", ".join(kinds))
    text_b = kinds.index("text_b") if "text_b" in kinds else None
    return Columns(0, text_b, kinds.index("label") if "label" in kinds else None)


def _rows(path):
    """Yields (line number from 1, fields). Quotes have no meaning, as in GLUE's files."""
    number = 0
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            for number, line in enumerate(reader, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                text = text.rstrip("\r\n")
                if text:
                    yield number, text.split("\t")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from None
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def _example(path, number, row, columns, with_label):
    where = f"{path}, line {number}"

    def field(what):
        index = getattr(columns, what)
        if index is None:
            return None
        if index >= len(row):
            raise UserError(
                f"{where}: {what} is expected in column {index + 1}, but there are {len(row)}"
            )
        return row[index]

    label = field("label") if with_label else None
    return Example(where, field("text_a"), field("text_b"), label)
