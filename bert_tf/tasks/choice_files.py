"""Examples of multiple choice from comma- or tab-separated files, as those of SWAG."""

import dataclasses
import os
import re

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.columns import ID
from bert_tf.tasks.tsv import BadRows, read_rows

# SWAG's names, and the plain ones.
CONTEXT, LABEL = ("startphrase", "context"), ("label",)
_ENDING = re.compile(r"ending_?(\d+)$", re.IGNORECASE)

# The names of a part's file in a folder; the second is SWAG's own.
_NAMES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A text, its C endings and, outside a test set, the number of the right one from 0.

    `where` is file and line, `id` that of the data or the number of the row from 0.
    """

    where: str
    context: str
    endings: tuple
    label: int | None = None
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class ChoiceColumns:
    """The names of columns, those of the header that fit where nothing is said.

    The texts of several `context` columns are joined by a space. Each of `endings` is a choice.
    """

    context: tuple = ()
    endings: tuple = ()
    label: str | None = None
    id: str | None = None


def find_choice_file(part, data_dir=None, path=None):
    """The file of "train", "dev" or "test": `path` if it is given, else that of the folder.

    Raises:
      UserError: if there is none.
    """
    if path:
        return files.require(path, f"{part}_file")
    if not data_dir:
        raise UserError(f"`data_dir` or `{part}_file` must be given")
    names = _NAMES[part]
    for name in names:
        if tf.io.gfile.exists(os.path.join(data_dir, name)):
            return os.path.join(data_dir, name)
    raise UserError(f"`data_dir`: there is no {' or '.join(names)} in {data_dir}")


def read_choices(path, columns=None, with_label=True, skip_bad_rows=False):
    """Reads a file whose first line names its columns.

    Args:
      path: one that ends in .csv is comma-separated, with quotes; all others are tab-separated.
      columns: `ChoiceColumns`, None for what the header says.
      with_label: whether there is a label, the number of the right ending from 0.
      skip_bad_rows: whether to leave out rows that cannot be used; a line says how many.

    Returns:
      (list of `ChoiceExample`, the names of the C columns of endings)

    Raises:
      UserError: names file and line of a bad row, or what is wrong with the header.
    """
    bad = BadRows(skip_bad_rows)
    rows = read_rows(path)
    number, names, problem = next(rows, (1, [], "the file is empty"))
    if problem:
        raise UserError(f"{path}, line {number}: {problem}")
    names = [name.strip() for name in names]
    found = _find(path, names, columns or ChoiceColumns(), with_label)
    examples = []
    for index, (number, row, problem) in enumerate(rows):
        where = f"{path}, line {number}"
        try:
            if problem:
                raise ValueError(problem)
            examples.append(_example(where, index, row, names, found))
        except ValueError as error:
            bad(f"{where}: {error}")
    bad.tell()
    if not examples:
        raise UserError(f"{bad.first or path}: there is not a single example that can be used")
    return examples, found.endings


def _find(path, names, columns, with_label):
    """The `ChoiceColumns` that a header has, all of them named; says what it chose by itself."""

    def find(wanted, flag, needed=True):
        lowered = [name.lower() for name in names]
        for name in wanted:
            if name.lower() in lowered:
                return names[lowered.index(name.lower())]
        if needed:
            raise UserError(
                f"{path}, line 1: there is no column {' or '.join(wanted)}, only "
                f"{', '.join(names)}; `{flag}` names others"
            )
        return None

    context = tuple(find([name], "context_columns") for name in columns.context)
    endings = tuple(find([name], "ending_columns") for name in columns.endings)
    if not endings:
        numbered = [(int(match[1]), name) for name in names if (match := _ENDING.match(name))]
        endings = tuple(name for _, name in sorted(numbered))
    if len(set(endings)) < 2:
        raise UserError(
            f"{path}, line 1: two or more columns of endings were expected, as ending0 and "
            f"ending1, found {', '.join(endings) or 'none'}; `ending_columns` names others"
        )
    label = (
        find([columns.label] if columns.label else LABEL, "label_column") if with_label else None
    )
    found = ChoiceColumns(
        context or (find(CONTEXT, "context_columns"),),
        endings,
        label,
        find([columns.id] if columns.id else ID, "id_column", needed=columns.id is not None),
    )
    used = (*found.context, *endings, label, found.id)
    if twice := [name for name in used if names.count(name) > 1]:
        raise UserError(f"{path}, line 1: the column {twice[0]} is there twice")
    console.info(
        "%s: %s, and the %d choices %s", path, " + ".join(found.context), len(endings),
        ", ".join(endings),
    )  # fmt: skip
    return found


def _example(where, index, row, names, columns):
    """The example of a row; ValueError says what is wrong with it."""
    if len(row) != len(names):
        # As of a comma that should be in quotes: what follows it is in the wrong column.
        raise ValueError(f"{len(row)} columns, but the first line has {len(names)}")
    cells = dict(zip(names, row, strict=True))
    for name in (*columns.context, *columns.endings):
        if not cells[name].strip():
            raise ValueError(f"{name} is empty")
    label = None
    if columns.label:
        known = [str(i) for i in range(len(columns.endings))]
        if cells[columns.label].strip() not in known:
            raise ValueError(f"the label {cells[columns.label]!r} is not one of {', '.join(known)}")
        label = int(cells[columns.label])
    return ChoiceExample(
        where,
        " ".join(cells[name].strip() for name in columns.context),
        tuple(cells[name] for name in columns.endings),
        label,
        cells[columns.id] if columns.id else str(index),
    )
