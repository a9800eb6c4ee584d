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
        columns, rows = find_columns(path, rows, split)
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


def find_columns(path, rows, split):
    """Finds the layout of a file of one's own, and says what it found.

    With a header line that names them, columns are `text` or `text_a`, optionally `text_b`, and
    `label`, in any order among others. Without one the columns are: text, label; or text_a, text_b,
    label. A test file may come without its label column: then it has one column, or two texts if
    its header says so.

    Returns:
      (`Columns`, the rows, read on from the start).
    """
    rows = list(rows)
    if not rows:
        return Columns(text_a=0), rows
    names = [name.strip().lower() for name in rows[0][1]]
    if "text" in names or "text_a" in names:
        label = names.index("label") if "label" in names else None
        if label is None and split != "test":
            raise UserError(f"{path}, line 1: the header has no column `label`, only {names}")
        text_b = names.index("text_b") if "text_b" in names else None
        text_a = names.index("text" if "text" in names else "text_a")
        return Columns(text_a, text_b, label, header=True), rows
    count = len(names)
    if count > 3 or (count < 2 and split != "test"):
        raise UserError(
            f"{path}, line 1: {count} columns without a header; expected text, label or text_a, "
            "text_b, label, or a header line with these names"
        )
    kinds = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}[count]
    console.info("%s: no header line, so its columns are taken as %s", path, ", ".join(kinds))
    return Columns(0, 1 if count == 3 else None, count - 1 if count > 1 else None), rows


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
