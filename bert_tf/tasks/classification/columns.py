"""The columns of a file that have the texts, labels and ids."""

import dataclasses

from bert_tf import console
from bert_tf.data.rows import find_column
from bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True)
class Columns:
    """Positions of columns, from 0, or from the end if negative.

    Attributes:
      text_a, text_b: the texts.
      label: the label; a tuple where each label has a column of its own.
      header: whether the first line is a header, which is skipped.
      id: the id.
      language: (position, value): rows with a different value there are skipped.
      width: the number of columns that a row may have, None for any.
      numbers: the numeric features.
      names: the names in the header, () without one.
      ignores_surplus: whether columns after `width` are ignored instead of being an error.
    """

    text_a: int
    text_b: int | None = None
    label: int | tuple | None = None
    header: bool = False
    id: int | None = None
    language: tuple | None = None
    width: int | None = None
    numbers: tuple = ()
    names: tuple = ()
    ignores_surplus: bool = False

    def name(self, position):
        """Return the name of a column, or its number as text without a header."""
        return self.names[position] if self.names else str(position)

    def roles(self):
        """Return a dict from positions to what the columns are, such as "text_b"."""
        labels = self.label if isinstance(self.label, tuple) else (self.label,)
        roles = {
            **dict.fromkeys(self.numbers, "number"),
            self.id: "id",
            **dict.fromkeys(labels, "label"),
            self.text_a: "text" if self.text_b is None else "text_a",
            self.text_b: "text_b",
        }
        return {position: role for position, role in roles.items() if position is not None}

    def named(self):
        """Return a dict from `text_columns` and `label_column` to the names of these columns."""
        labels = self.label if isinstance(self.label, tuple) else (self.label,)
        texts = (self.text_a,) if self.text_b is None else (self.text_a, self.text_b)
        named = {
            "text_columns": tuple(map(self.name, texts)),
            "label_column": tuple(self.name(x) for x in labels if x is not None),
        }
        return {option: columns for option, columns in named.items() if columns}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns that a user names; `find_columns` finds the others.

    Attributes:
      text, label, id, numbers: columns by name or by number from 0, as text; `label` has several
        where each label has a column, `numbers` are the numeric features.
      header: "auto", "yes" or "no".
      separator: separates the labels of one cell.
      numeric_as: "vector" or "text".
      delimiter: see `tables.parse_delimiter`; None to find it.
      remembered: which of these are those of a training run. If a file lacks its text columns, the
        columns of the file are found as without a layout.
    """

    text: tuple = ()
    label: tuple = ()
    id: str | None = None
    header: str = "auto"
    separator: str = ","
    numbers: tuple = ()
    numeric_as: str = "vector"
    delimiter: str | None = None
    remembered: tuple = ()

    @property
    def likely_names(self):
        """Names, in lower case, by which a header can be recognised; () if there is none."""
        if self.header == "no":
            return ()
        given = (*self.text, *self.label, *self.numbers, *([self.id] if self.id else []))
        return (*_HEADER, *(name.lower() for name in given if not name.isdecimal()))


# A header line is recognised by these names.
TEXT_A = ("text", "text_a", "sentence", "sentence1")
TEXT_B = ("text_b", "sentence2")
LABEL = ("label",)
ID = ("index", "id", "idx")
_HEADER = (*TEXT_A, *TEXT_B, *LABEL, *ID)


def find_columns(path, row, layout, split, train_columns=None, has_names=False):
    """Find the columns of a file.

    With a header line, columns that `layout` does not name are `text` (or `text_a`, `sentence`,
    `sentence1`), optionally `text_b` (or `sentence2`), `label`, and optionally `id` (or `index`),
    in any order among others. Without a header line they are: text, label; or text_a, text_b,
    label. A test file may lack the label column.

    Args:
      path: of the file, for messages.
      row: fields of its first line.
      layout: a `Layout`.
      split: "train", "dev" or "test".
      train_columns: number of columns of the training file, if known: a test file with one column
        fewer has no labels.
      has_names: whether the file always has names of columns, as JSON and Parquet do.
    """
    names = [name.strip() for name in row]
    layout = _fitting_layout(path, names, layout)
    if has_names:
        if layout.header == "no":
            raise UserError(f"`header=no`, but {path} has names of columns")
        layout = dataclasses.replace(layout, header="yes")
    given = [*layout.text, *layout.label, *([layout.id] if layout.id else []), *layout.numbers]
    named = [name for name in given if not name.isdecimal()]
    if layout.header == "no" and named:
        raise UserError(
            f"`header=no`, but the column {named[0]!r} is given by name; use its number"
        )
    is_known = named or any(name.lower() in _HEADER for name in names)
    if layout.header == "yes" or (layout.header == "auto" and is_known):
        columns = _by_header(path, names, layout, split)
    elif layout.text:
        columns = _by_number(path, layout, split)
    else:
        columns = _by_count(path, len(names), layout, split, train_columns)
    _check_distinct(path, columns)
    return dataclasses.replace(columns, width=len(names))


def _fitting_layout(path, names, layout):
    """Return the layout without its remembered columns if a file does not have the texts."""
    if "text" not in layout.remembered:
        return layout
    lowered = [name.lower() for name in names]
    missing = [
        name
        for name in layout.text
        if name.lower() not in lowered and not (name.isdecimal() and int(name) < len(names))
    ]
    if not missing:
        return layout
    console.info(
        "%s has no column %r as the training file had; its columns are found by its own header",
        path, missing[0],
    )  # fmt: skip
    names = {"text", "label", "id", "header"}.intersection(layout.remembered)
    return dataclasses.replace(layout, **{name: getattr(Layout(), name) for name in names})


def _check_distinct(path, columns):
    """Raise UserError if a label or a second text is in a column that has another role."""
    texts = [columns.text_a, *([] if columns.text_b is None else [columns.text_b])]
    labels = columns.label if isinstance(columns.label, tuple) else (columns.label,)
    if len(set(texts)) < len(texts):
        raise UserError(f"{path}: `text_columns` has the column {columns.name(texts[0])!r} twice")
    for position in labels:
        if position is None:
            continue
        if position in (*texts, *columns.numbers) or labels.count(position) > 1:
            other = "text_columns" if position in texts else "numeric_columns"
            other = other if position in (*texts, *columns.numbers) else "label_column"
            raise UserError(
                f"{path}: the column {columns.name(position)!r} is the label (`label_column`) and "
                f"cannot be in `{other}` too"
            )


def _by_header(path, names, layout, split):
    def find(wanted, argument=None):
        """Return the position of the first of these names, or of a column given by number."""
        if wanted[0].isdecimal() and wanted[0] not in names:
            return int(wanted[0])
        return find_column(path, names, wanted, argument)

    if layout.text:
        texts = [find([name], "text_columns") for name in layout.text]
    else:
        texts = [find(TEXT_A, "text_columns"), find(TEXT_B)]
    text_a, text_b = (*texts, None)[:2]
    argument = None if split == "test" else "label_column"
    labels = tuple(find([name], argument) for name in layout.label or LABEL)
    label = labels if len(labels) > 1 else labels[0]
    row_id = find([layout.id], "id_column") if layout.id else find(ID)
    numbers = tuple(find([name], "numeric_columns") for name in layout.numbers)
    return Columns(
        text_a, text_b, label, header=True, id=row_id, numbers=numbers, names=tuple(names)
    )


def _by_number(path, layout, split):
    text_a, text_b = (*map(int, layout.text), None)[:2]
    labels = tuple(map(int, layout.label))
    if not labels and split != "test":
        raise UserError(f"{path}: `text_columns` without a header line requires `label_column`")
    label = (labels if len(labels) > 1 else labels[0]) if labels else None
    row_id = int(layout.id) if layout.id else None
    numbers = tuple(map(int, layout.numbers))
    return Columns(text_a, text_b, label, id=row_id, numbers=numbers, ignores_surplus=True)


def _by_count(path, count, layout, split, train_columns):
    roles = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}.get(count)
    if split == "test" and train_columns == count + 1:
        roles = ("text_a", "text_b")[:count] if count > 1 else ("text",)
    elif roles is None or (count == 1 and split != "test"):
        raise UserError(
            f"{path}, line 1: {count} columns without a header; expected text, label or text_a, "
            "text_b, label, or a header line with these names, or `text_columns`"
        )
    if layout.label or layout.id or layout.numbers:
        raise UserError(
            "`label_column`, `id_column` and `numeric_columns` require `text_columns` or a header "
            "line"
        )
    text_b = roles.index("text_b") if "text_b" in roles else None
    return Columns(0, text_b, roles.index("label") if "label" in roles else None)
