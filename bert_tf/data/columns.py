"""Columns of a table by name, and the handling of bad rows."""

import dataclasses
import functools
import math
import os

from bert_tf import console
from bert_tf.configs.task import base_split
from bert_tf.data.tables import plain
from bert_tf.errors import UserError, counted, reason
from bert_tf.io import files


class BadRows:
    """Counts rows that cannot be used, or raises an error; `skip` is None without an option."""

    def __init__(self, skip: bool | None = False):
        self.skip = skip
        self.count, self.first = 0, None

    def __call__(self, message):
        if not self.skip:
            # Arguments, which are named in `, have no such option.
            has_option = self.skip is not None and not message.startswith("`")
            raise UserError(message + " (`skip_bad_rows` skips such rows)" * has_option)
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
            except UnicodeDecodeError as error:
                self(f"{where}: not UTF-8 text ({reason(error)})")
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
            raise UserError(f"{self.first or name}: found no valid examples")
        return results

    def report(self, what="bad rows skipped"):
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


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
        raise UserError(f"`data_dir`: there is no folder {data_dir}")
    raise UserError(
        f"`data_dir={data_dir}`: found no {' or '.join(names)}; for a file with another name use "
        f"`{argument}`"
    )


def named_rows(table):
    """Return the column names and an iterator of (place, dict, or str that describes a bad row)."""
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

    return names, ((table.place(number), named(*row)) for number, *row in table.rows)


def columns_of(table):
    """Return the column names of a `Table`, `find_column` for them, and its rows as dicts."""
    names, rows = named_rows(table)
    return names, functools.partial(find_column, table.header_place, names), rows


def find_column(place, names, wanted, argument=None):
    """Return the column with one of the `wanted` names, ignoring case; else None or a UserError."""
    lowered = [name.lower() for name in names]
    for name in wanted:
        key, candidates = (name, names) if name in names else (name.lower(), lowered)
        if candidates.count(key) > 1:
            raise UserError(f"{place}: found the column {name!r} twice")
        if key in candidates:
            return names[candidates.index(key)]
    if argument:
        advice = f"; select the column with `{argument}`" * (not place.startswith("`"))
        raise UserError(
            f"{place}: found the columns {names}, expected {' or '.join(map(repr, wanted))}{advice}"
        )
    return None


# Roughly the largest float32.
_LARGEST = 3.4e38


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
TEXT_B = ("text_b", "sentence2")
LABEL = ("label",)
ID = ("index", "id", "idx")
_HEADER = (*TEXT_A, *TEXT_B, *LABEL, *ID)

# Other common names. Each could be a word of an example, so one alone does not mark a header.
_MORE_TEXT = ("review", "comment", "content", "message", "tweet", "document", "body")
_MORE_LABEL = (
    "labels", "sentiment", "category", "class", "target", "topic", "intent", "emotion", "rating",
    "score",
)  # fmt: skip
ANY_TEXT, ANY_LABEL = (*TEXT_A, *_MORE_TEXT), (*LABEL, *_MORE_LABEL)


def find_columns(
    place, row, layout, split, train=None, has_names=False, second=(), needs_header=False
):
    """Find the columns of a table, given its first row; `place` is that of the row, for messages.

    With a header, columns that `layout` does not name are found by name, in any order. Without
    one, the columns are text, label or text_a, text_b, label. A test file may lack the label;
    without a header, it then has one column less than the training file, whose
    `Columns` are `train`. `has_names` is for formats that name their columns, as JSON does.
    If the file `needs_header`, the first row must have a known name.
    """
    names = [name.strip() for name in row]
    layout = _fitting_layout(place, names, layout)
    if has_names and layout.header == "no":
        raise UserError(f"`header=no`: found column names in {place}, whose format requires them")
    named = layout.given_names
    if layout.header == "no" and named:
        raise UserError(f"`header=no`: the column {named[0]!r} is given by name; use its number")
    lowered = {name.lower() for name in names}
    # Saved column numbers are those of a training file without a header.
    needs_header = needs_header and not (layout.text and "text" in layout.restored)
    has_more = needs_header or not lowered.isdisjoint(_MORE_LABEL)
    has_more = has_more and not lowered.isdisjoint(_MORE_TEXT)
    is_known = has_names or named or has_more or not lowered.isdisjoint(_HEADER)
    is_auto, first = layout.header == "auto" and not has_names, 0
    if is_auto and not names[0] and is_number(next(iter(second), "")):
        first = 1  # the index of a DataFrame
    is_numbered = names[first:] == [*map(str, range(len(names) - first))]
    is_numbered &= bool(layout.restored or len(names) > 1 or (train and names[0] in train.names))
    from_pandas = is_auto and (first or is_numbered)
    if from_pandas:
        console.info("%s: the line %s is a header, unless `header=no`", place, ", ".join(names))
    if layout.header == "yes" or (
        layout.header == "auto" and (is_known or (from_pandas and layout.text))
    ):
        columns = _by_layout(place, names, layout, split)
    elif needs_header and layout.header == "auto" and not from_pandas:
        raise UserError(
            f"{place}: found {', '.join(names)}, expected the name of a text column; give the name "
            "as `text_columns`, or use `header=no` if this is not a header"
        )
    elif layout.text:
        if not layout.label and split != "test":
            raise UserError(
                f"{place}: `text_columns` without a header line requires `label_column`"
            )
        columns = _by_layout(place, (), layout, split)
    else:
        # Neither count includes the index.
        num_train = train.width - (train.names[:1] == ("",)) if train else None
        columns = _by_count(place, len(names) - first, layout, split, num_train)
        if from_pandas:
            texts, labels = (tuple(first + x for x in y) for y in (columns.texts, columns.labels))
            columns = Columns(texts, labels, header=True, names=tuple(names))
    _check_distinct(place, columns)
    return dataclasses.replace(columns, width=len(names))


def is_number(text):
    """Return whether `read_number` accepts a text."""
    try:
        return math.isfinite(read_number(text, ""))
    except ValueError:
        return False


def _fitting_layout(place, names, layout):
    if "text" not in layout.restored:
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
        "%s: found no column %r, unlike the training file; detecting its columns",
        place, missing[0],
    )  # fmt: skip
    names = {"text", "label", "id", "header"}.intersection(layout.restored)
    return dataclasses.replace(layout, **{name: getattr(Layout(), name) for name in names})


def _check_distinct(place, columns):
    texts, labels = columns.texts, columns.labels
    if len(set(texts)) < len(texts):
        raise UserError(f"{place}: found {columns.name(texts[0])!r} twice in `text_columns`")
    others = {
        **dict.fromkeys((x for x in labels if labels.count(x) > 1), "label_column"),
        **dict.fromkeys(columns.numbers, "numeric_columns"),
        **dict.fromkeys(texts, "text_columns"),
    }
    for position in filter(others.__contains__, labels):
        raise UserError(
            f"{place}: the column {columns.name(position)!r} cannot be in both `label_column` and "
            f"`{others[position]}`"
        )


def _by_layout(place, names, layout, split):
    def find(wanted, argument=None):
        if wanted[0].isdecimal() and wanted[0] not in names:
            position = int(wanted[0])
            if not names or position < len(names):
                return position
            if argument is None:
                return None
            raise UserError(
                f"{place}: found {len(names)} columns, expected a column {position}, counted from "
                f"0, for `{argument}`"
            )
        name = find_column(place, names, wanted, argument) if names else None
        return None if name is None else names.index(name)

    def find_usual(wanted, others, argument, is_needed=True):
        """Return the position of a `wanted` name, or else of the only match in `others`."""
        position = find(wanted)
        found = [name for name in names if name.lower() in others] if position is None else []
        if len(found) > 1 and is_needed:
            advice = f"; select it with `{argument}`" * (not place.startswith("`"))
            raise UserError(
                f"{place}: found the columns {' and '.join(map(repr, found))}, expected one{advice}"
            )
        return find(found or wanted, argument if is_needed else None)

    texts = [find([name], "text_columns") for name in layout.text]
    needs_label = split != "test"
    others = {*ANY_LABEL, *ID, *(name.lower() for name in layout.numbers)}
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


def _by_count(place, count, layout, split, num_train):
    has_labels = not (split == "test" and (count == 1 or num_train == count + 1))
    num_texts = count - 1 if has_labels else min(count, 2)
    if num_texts not in (1, 2):
        raise UserError(
            f"{place}: found {count} columns without a header, expected text, label or "
            "text_a, text_b, label, or a header line with these names, or `text_columns`"
        )
    if layout.label or layout.id or layout.numbers:
        raise UserError(
            "`label_column`, `id_column` and `numeric_columns` require `text_columns` or a header "
            "line"
        )
    return Columns(tuple(range(num_texts)), (num_texts,) if has_labels else ())


def read_number(value, what):
    """Read a number or its text; raise ValueError, naming `what`, if not a finite float32."""
    try:
        # Unlike most programs, Python accepts 1_000 as a number.
        number = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if _LARGEST < abs(number) < math.inf:
        raise ValueError(f"{what} is {value!r}, too large for float32")
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{what} is {value!r}, expected a number")
    return number
