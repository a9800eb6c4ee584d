"""Columns of a table by name, and the handling of bad rows."""

import dataclasses
import functools
import os
from collections import Counter

from bert_tf import console
from bert_tf.configs.task import base_split
from bert_tf.data.labels import is_number
from bert_tf.data.tables import as_text, is_missing, plain, read_rows
from bert_tf.errors import UserError, counted, reason
from bert_tf.io import files

_DROP_ROWS = "; in a DataFrame, df.dropna(subset=[...]) removes such rows"


class BadRows:
    """Counts rows that cannot be used, or raises an error; `skip` is None without an option."""

    def __init__(self, skip: bool | None = False):
        self.skip = skip
        self.count, self.first = 0, None

    def __call__(self, message):
        if not self.skip:
            advice = " (`skip_bad_rows` skips such rows)" * (self.skip is not None)
            if message.startswith("`"):  # an argument, which has no such option
                advice = _DROP_ROWS * message.endswith(" is missing")
            raise UserError(message + advice)
        self.count += 1
        self.first = self.first or message

    def collect(self, rows, make):
        """Return the list of results of `make` for all usable rows.

        `rows` yields (place, row), where a bad row may be a str that describes the problem.
        `make(place, index, row)` raises ValueError for a bad row and returns None to skip one.
        """
        results = []
        for index, (where, row) in enumerate(rows):
            try:
                if isinstance(row, str):
                    raise ValueError(row)
                result = make(where, index, row)
            except ValueError as error:
                self(f"{where}: {error}")
            else:
                if result is not None:
                    results.append(result)
        return results

    def examples(self, name, rows, make):
        """Return the results of `collect` and report skipped rows; UserError if there are none."""
        results = self.collect(rows, make)
        self.report()
        if not results:
            problem = f"; {self.first}" if self.first else ""
            raise UserError(f"{name}: found no examples{problem}")
        return results

    def report(self, what="bad rows skipped"):
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


def required_text(value, name):
    """Return a cell as `as_text` does; raise ValueError if it is missing or blank."""
    text = as_text(value)
    if not text.strip():
        raise ValueError(f"{name} is {'missing' if is_missing(value) else 'empty'}")
    return text


def plain_rows(rows):
    """Yield (number, list or dict of Python values, problem) for each list or dict in `rows`."""
    for number, row in enumerate(rows):
        try:
            yield number, plain(row), None
        except UnicodeDecodeError as error:
            yield number, [], f"not UTF-8 text ({reason(error)})"


def class_names(features):
    """Return a dict from each feature of class labels, or of lists of them, to their names."""
    items = {x: getattr(feature, "feature", feature) for x, feature in features.items()}
    names = {x: getattr(feature, "names", None) for x, feature in items.items()}
    return {x: tuple(labels) for x, labels in names.items() if labels}


def find_file(split, names, data_dir=None, path=None):
    """Return the file of a split: `path` if given, else the first of `names` in `data_dir`."""
    argument = f"{base_split(split)}_file"
    if path:
        return files.require(path, argument)
    if not data_dir:
        raise UserError(f"`data_dir` or `{argument}` must be given")
    for name in names:
        if files.exists(os.path.join(data_dir, name)):
            return files.require(os.path.join(data_dir, name), "data_dir")
    if not files.is_folder(data_dir):
        raise UserError(f"`data_dir={data_dir}`: there is no such folder")
    raise UserError(
        f"`data_dir={data_dir}`: found no {' or '.join(names)}; name another file with `{argument}`"
    )


def columns_of(table):
    """Return the column names of a `Table`, `find_column` for them, and an iterator of its rows.

    A row is (place, dict), or (place, str that describes a bad row).
    """
    number, names, problem = next(table.rows, (1, [], "the file is empty"))
    if problem:
        raise UserError(f"{table.place(number)}: {problem}")
    names = [str(name).strip() for name in names]

    def named(cells, problem):
        if not problem and len(cells) != len(names):
            # An unquoted comma, for example, shifts the following columns.
            problem = (
                f"found {counted(len(cells), 'column')}, expected {len(names)} as in the first line"
            )
        return problem or dict(zip(names, cells, strict=True))

    rows = ((table.place(number), named(*row)) for number, *row in table.rows)
    return names, functools.partial(find_column, table.header_place, names), rows


def find_column(place, names, wanted, argument=None, advice=""):
    """Return the column with one of the `wanted` names, ignoring case; else None or a UserError.

    The error advises to use the option `argument` or, for arguments of `fit`, has the `advice`.
    """
    lowered = [name.lower() for name in names]
    for name in wanted:
        key, candidates = (name, names) if name in names else (name.lower(), lowered)
        if candidates.count(key) > 1:
            raise UserError(f"{place}: found the column {name!r} twice")
        if key in candidates:
            return names[candidates.index(key)]
    if argument:
        if not place.startswith("`"):
            advice = f"; select the column with `{argument}`"
        raise UserError(
            f"{place}: found {[*names]}, expected {' or '.join(map(repr, wanted))}{advice}"
        )
    return None


@dataclasses.dataclass(frozen=True)
class Columns:
    """Column positions, counted from 0, or from the end if negative.

    `texts` has the text, or both texts of a pair, and `labels` one column per label. Rows without
    the value of `language`, (position, value), are skipped. `width` is the maximum number of
    columns in a row; surplus ones are an error unless `ignores_surplus`.
    """

    texts: tuple
    labels: tuple = ()
    id: int | None = None
    header: bool = False
    language: tuple | None = None
    numbers: tuple = ()
    names: tuple = ()
    width: int | None = None
    ignores_surplus: bool = False

    def name(self, position):
        return self.names[position] if self.names else str(position)

    def roles(self):
        texts = ("text",) if len(self.texts) == 1 else ("text_a", "text_b")
        return {
            **dict.fromkeys(self.numbers, "number"),
            **({} if self.id is None else {self.id: "id"}),
            **dict.fromkeys(self.labels, "label"),
            **dict(zip(self.texts, texts, strict=True)),
        }

    def named(self):
        named = {"text_columns": self.texts, "label_column": self.labels}
        return {option: tuple(map(self.name, x)) for option, x in named.items() if x}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns that the user names, by name or position; `find_columns` detects the others.

    `restored` has the names of the attributes that a training run saved. They are ignored for a
    file without the text columns.
    """

    text: tuple = ()
    label: tuple = ()
    id: str | None = None
    header: str = "auto"
    separator: str = ","
    numbers: tuple = ()
    numeric_as: str = "vector"
    delimiter: str | None = None
    restored: tuple = ()

    @property
    def given_names(self):
        given = (*self.text, *self.label, *([self.id] if self.id else []), *self.numbers)
        return [name for name in given if not name.isdecimal()]

    @property
    def likely_names(self):
        """Lowercase names that identify a header; () if the file has no header."""
        if self.header == "no":
            return ()
        return (*_HEADER, *(name.lower() for name in self.given_names))


# Any of these names marks the first line as a header.
TEXT_A = ("text", "text_a", "sentence", "sentence1")
TEXT_B = ("text_b", "sentence2", "text_pair")
LABEL = ("label",)
ID = ("index", "id", "idx")
_HEADER = (*TEXT_A, *TEXT_B, *LABEL, *ID)

# Other common names. Each could be a word of an example, so one alone does not mark a header.
_MORE_TEXT = ("review", "comment", "content", "message", "tweet", "document", "body")
_MORE_LABEL = (
    "labels", "sentiment", "category", "class", "target", "topic", "intent", "emotion", "rating",
    "score",
)  # fmt: skip
# For arguments of `fit`.
_PASS_COLUMNS = '; or pass the columns one by one, such as df["body"], df["verdict"]'
ANY_TEXT, ANY_LABEL = (*TEXT_A, *_MORE_TEXT), (*LABEL, *_MORE_LABEL)


def find_columns(table, row, second, layout, split, train=None, separator=None):
    """Find the columns of a table, given its first two rows.

    With known names, columns that `layout` does not name are found by name, in any order. Without
    them, the columns are text, label or text_a, text_b, label. A test file may lack the label; it
    then has one column less than the training file, whose `Columns` are `train`. `separator` is the
    character between labels, if a cell may have several.
    """
    place, names = table.header_place, tuple(name.strip() for name in row)
    layout = _fitting_layout(place, names, layout)
    has_names, named = table.format.has_names, layout.given_names
    if has_names and layout.header == "no":
        raise UserError(f"`header=no`: found column names in {place}, whose format requires them")
    if layout.header == "no" and named:
        raise UserError(f"`header=no`: the column {named[0]!r} is given by name; use its number")
    has_header = layout.header == "yes" or has_names or bool(named)
    is_auto = layout.header == "auto" and not has_header
    # The index of a DataFrame has no name. Columns without names have numbers.
    first = int(is_auto and not names[0] and is_number(next(iter(second), "")))
    is_numbered = is_auto and names[first:] == tuple(map(str, range(len(names) - first)))
    is_numbered &= bool(layout.restored or len(names) > 1 or (train and names[0] in train.names))
    is_same = is_auto and train is not None and names == train.names
    # Labels, which reveal a header, are missing or ignored in a test file. A file with one column
    # and no other delimiter may have lines of text, and saved numbers are those of a file without
    # a header.
    needs_names = is_auto and split == "test" and not is_same
    needs_names &= len(names) > 1 or table.format.delimiter != "\t"
    needs_names &= not (layout.text and "text" in layout.restored)
    needs_names &= train is None or train.header
    lowered = {name.lower() for name in names}
    has_more = not lowered.isdisjoint(_MORE_TEXT)
    has_more &= needs_names or not lowered.isdisjoint(_MORE_LABEL)
    is_known = (
        has_more or not lowered.isdisjoint(_HEADER) or (layout.text and (first or is_numbered))
    )
    if has_header or (is_auto and is_known):
        columns = _by_layout(place, names, layout, split)
    elif needs_names and not is_numbered and not (first and len(names) == 2):
        raise UserError(
            f"{place}: found {', '.join(names)}, expected the name of a text column; give the name "
            "as `text_columns`, or use `header=no` if this is not a header"
        )
    else:
        if layout.text:
            columns = _by_layout(place, (), layout, split)
        else:
            # Neither count includes the index.
            num_train = train.width - (train.names[:1] == ("",)) if train else None
            columns = _by_count(place, range(first, len(names)), layout, split, num_train)
        why = None
        if is_same or first or is_numbered:
            why = "as in the training file" if is_same else "as pandas writes it"
        elif is_auto and _has_unique_label(table, names, columns.labels, separator):
            why = f"because the label {names[columns.labels[0]]!r} occurs nowhere else"
        if why:
            console.info(
                "%s: the first line, %s, is a header, %s; use `header=no` to read it as an example",
                table.name, ", ".join(names), why,
            )  # fmt: skip
            columns = dataclasses.replace(columns, header=True, names=names)
    counts = Counter([*columns.texts, *columns.labels])
    counts.update({*columns.labels}.intersection(columns.numbers))
    if twice := [columns.name(position) for position, count in counts.items() if count > 1]:
        raise UserError(
            f"{place}: the column {twice[0]!r} is used twice in `text_columns`, `label_column` and "
            "`numeric_columns`"
        )
    return dataclasses.replace(columns, width=len(names))


def _has_unique_label(table, names, labels, separator):
    """Return whether the first row has a label that must be the name of its column.

    It is not a number and occurs only there, while the other labels are numbers or a few values
    that repeat.
    """
    position = labels[0] if labels else len(names)
    if position >= len(names) or not names[position] or is_number(names[position]):
        return False
    # Read the file twice: all its rows may take much more memory than the examples.
    rows = read_rows(table.name, table.format)
    cells = (row[position] for _, row, _ in rows if len(row) > position)
    if separator:
        cells = (label for cell in cells for label in cell.split(separator))
    counts = Counter(map(str.strip, cells))
    if counts.pop(names[position], 0) != 1 or counts.total() < 2:
        return False
    return 2 <= len(counts) <= counts.total() / 2 or all(map(is_number, counts))


def _fitting_layout(place, names, layout):
    known = {*map(str.lower, names), *map(str, range(len(names)))}
    missing = [name for name in layout.text if name.lower() not in known]
    if not missing or "text" not in layout.restored:
        return layout
    console.info(
        "%s: found no column %r, unlike the training file; detecting its columns",
        place, missing[0],
    )  # fmt: skip
    restored = {"text", "label", "id", "header"}.intersection(layout.restored)
    return dataclasses.replace(layout, **{name: getattr(Layout(), name) for name in restored})


def _by_layout(place, names, layout, split):
    def find(wanted, argument=None):
        if wanted[0].isdecimal() and wanted[0] not in names:
            position = int(wanted[0])
            if not names or position < len(names):
                return position
        advice = _PASS_COLUMNS * (argument != "numeric_columns")
        name = find_column(place, names, wanted, argument, advice)
        return None if name is None else names.index(name)

    def find_usual(wanted, others, argument, is_needed=True):
        """Return the position of a `wanted` name, or else of the only match in `others`."""
        position = find(wanted)
        found = [name for name in names if name.lower() in others] if position is None else []
        if len(found) > 1 and is_needed:
            advice = _PASS_COLUMNS if place.startswith("`") else f"; select it with `{argument}`"
            raise UserError(f"{place}: found {', '.join(map(repr, found))}, expected one{advice}")
        return find(found or wanted, argument if is_needed else None)

    texts = [find([name], "text_columns") for name in layout.text]
    needs_label = split != "test"
    others = {"", *ANY_LABEL, *ID, *(name.lower() for name in layout.numbers)}
    rest = [name for name in names if name.lower() not in others]
    text_a = TEXT_A if needs_label or len(rest) != 1 else (*TEXT_A, *rest)
    texts = texts or [find_usual(text_a, _MORE_TEXT, "text_columns"), find(TEXT_B)]
    labels = [find([name], "label_column" if needs_label else None) for name in layout.label]
    labels = labels or [find_usual(LABEL, _MORE_LABEL, "label_column", needs_label)]
    return Columns(
        tuple(x for x in texts if x is not None),
        tuple(x for x in labels if x is not None),
        find([layout.id], "id_column") if layout.id else find(ID),
        header=bool(names),
        numbers=tuple(find([name], "numeric_columns") for name in layout.numbers),
        names=tuple(names),
        ignores_surplus=not names,
    )


def _by_count(place, positions, layout, split, num_train):
    count = len(positions)
    has_labels = not (split == "test" and (count == 1 or num_train == count + 1))
    num_texts = count - 1 if has_labels else min(count, 2)
    if num_texts not in (1, 2):
        raise UserError(
            f"{place}: found {count} columns without a header, expected text, label or "
            "text_a, text_b, label, or a header line with these names, or `text_columns`"
        )
    if layout.label or layout.id or layout.numbers:
        raise UserError(
            "`label_column`, `id_column` and `numeric_columns` require `text_columns` or a header"
        )
    return Columns(tuple(positions[:num_texts]), tuple(positions[num_texts:]) if has_labels else ())
