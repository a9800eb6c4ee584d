"""Read contexts and their endings from tables."""

import dataclasses
import functools
import re

from bert_tf import console
from bert_tf.data.columns import ID
from bert_tf.data.rows import BadRows, find_column, read_named_rows
from bert_tf.errors import UserError
from bert_tf.tasks.multiple_choice.config import MultipleChoiceConfig

# Default column names; "startphrase" is SWAG's.
CONTEXT, LABEL = ("startphrase", "context"), ("label",)
_ENDING = re.compile(r"ending_?(\d+)$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Example:
    """A context and its endings.

    Attributes:
      where: file and line, for messages.
      label: index of the correct ending; None in test sets.
      id: the id in the data, or the row number from 0.
    """

    where: str
    context: str
    endings: tuple
    label: int | None = None
    id: str | None = None


def read_examples(path, config=None, with_label=True):
    """Return a file's list of `Example`, and the names of its ending columns."""
    config = config or MultipleChoiceConfig()
    bad = BadRows(config.skip_bad_rows)
    names, rows = read_named_rows(path)
    columns = _find_columns(path, names, config, with_label)
    examples = bad.collect(rows, functools.partial(_example, columns))
    bad.report()
    if not examples:
        raise UserError(f"{bad.first or path}: the file has no valid examples")
    return examples, columns.ending_columns


def _find_columns(path, names, config, with_label):
    """Return the config with the names of all columns in the header, and log them."""
    find = functools.partial(find_column, path, names)
    context = tuple(find([name], "context_columns") for name in config.context_columns)
    endings = tuple(find([name], "ending_columns") for name in config.ending_columns)
    if not endings:
        numbered = [(int(match[1]), name) for name in names if (match := _ENDING.match(name))]
        endings = tuple(name for _, name in sorted(numbered))
    if len(set(endings)) < 2:
        raise UserError(
            f"{path}, line 1: found the columns of endings {', '.join(endings) or '(none)'}, "
            "expected two or more, such as ending0 and ending1; name them with `ending_columns`"
        )
    label_names = [config.label_column] if config.label_column else LABEL
    row_id = config.id_column
    columns = dataclasses.replace(
        config,
        context_columns=context or (find(CONTEXT, "context_columns"),),
        ending_columns=endings,
        label_column=find(label_names, "label_column") if with_label else None,
        id_column=find([row_id], "id_column") if row_id else find(ID),
    )
    used = (*columns.context_columns, *endings, columns.label_column, columns.id_column)
    if repeated := [name for name in used if names.count(name) > 1]:
        raise UserError(f"{path}, line 1: the column {repeated[0]} occurs twice")
    console.info(
        "%s: context %s; %d endings: %s", path, " + ".join(columns.context_columns), len(endings),
        ", ".join(endings),
    )  # fmt: skip
    return columns


def _example(columns, where, index, cells):
    for name in (*columns.context_columns, *columns.ending_columns):
        if not cells[name].strip():
            raise ValueError(f"{name} is empty")
    label = None
    if columns.label_column:
        text = cells[columns.label_column]
        numbers = [str(i) for i in range(len(columns.ending_columns))]
        if text.strip() not in numbers:
            raise ValueError(f"the label is {text!r}, expected one of {', '.join(numbers)}")
        label = int(text)
    return Example(
        where,
        " ".join(cells[name].strip() for name in columns.context_columns),
        tuple(cells[name] for name in columns.ending_columns),
        label,
        cells[columns.id_column] if columns.id_column else str(index),
    )
