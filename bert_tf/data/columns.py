"""Columns of a table by name, and errors of its rows."""

import contextlib
import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Mapping

from bert_tf import console
from bert_tf.configs.task import base_split
from bert_tf.data.labels import is_number
from bert_tf.data.tables import MissingValue, as_text, is_missing, read_rows, to_python
from bert_tf.errors import UserError, counted, reason
from bert_tf.io import files


class RowWarnings:
    """Counts rows that have a problem, and keeps the first message."""

    def __init__(self):
        self.count, self.first = 0, None

    def add(self, message):
        self.count += 1
        self.first = self.first or message

    def report(self, what):
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


class RowErrors(RowWarnings):
    """Skips and counts invalid rows if `skip`, else raises UserError for the first one.

    `skip` is the option `skip_bad_rows`; None where there is no such option, as in `fit`.
    """

    def __init__(self, skip: bool | None = None):
        super().__init__()
        self._skip = skip

    def add(self, message):
        if not self._skip:
            advice = "" if self._skip is None else " (`skip_bad_rows` skips such rows)"
            raise UserError(message + advice)
        super().add(message)

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
                advice = ""
                if self._skip is None and isinstance(error, MissingValue):
                    advice = "; in a DataFrame, df.dropna(subset=[...]) removes such rows"
                self.add(f"{where}: {error}{advice}")
            else:
                if result is not None:
                    results.append(result)
        return results

    def examples(self, name, rows, make):
        """Return the results of `collect`; report skipped rows; raise UserError without results."""
        results = self.collect(rows, make)
        self.report("bad rows skipped")
        if not results:
            problem = f"; {self.first}" if self.first else ""
            raise UserError(f"{name}: found no examples{problem}")
        return results


def required_text(value, name):
    """Return a cell as `as_text` does; raise ValueError if it is missing or blank."""
    text = as_text(value)
    if is_missing(value):
        raise MissingValue(f"{name} is missing")
    if not text.strip():
        raise ValueError(f"{name} is empty")
    return text


def plain_rows(rows):
    """Yield (number, list or dict of Python values, problem) for each list or dict in `rows`."""
    for number, row in enumerate(rows):
        try:
            yield number, to_python(row), None
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


def header_and_rows(table):
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
    return names, functools.partial(find_column, table, names), rows


def find_column(table, names, wanted, argument=None):
    """Return the column with one of the `wanted` names, ignoring case; else None or a UserError.

    The error advises to use the option `argument` or, for arguments of `fit`, to rename the column.
    """
    lowered = [name.lower() for name in names]
    for name in wanted:
        key, candidates = (name, names) if name in names else (name.lower(), lowered)
        if candidates.count(key) > 1:
            raise UserError(f"{table.header_place}: found the column {name!r} twice")
        if key in candidates:
            return names[candidates.index(key)]
    if argument:
        found, expected = [*names] or "no header, only numbers", " or ".join(map(repr, wanted))
        raise choice_error(table, found, expected, wanted, argument)
    return None


def choice_error(table, found, expected, wanted, argument):
    """Return a UserError that advises to name or select the column for an `argument`."""
    rename = f"rename the column, such as df.rename(columns={{'body': {wanted[0]!r}}})"
    advice = rename if table.is_argument else f"select the column with `{argument}`"
    return UserError(f"{table.header_place}: found {found}, expected {expected}; {advice}")


@dataclasses.dataclass(frozen=True)
class Columns:
    """Column positions, counted from 0, or from the end if negative.

    `texts` has the text, or both texts of a pair, `labels` one column per label, and `numbers` the
    numeric columns by name. Rows without the value of `language`, (position, value), are skipped.
    `width` is the maximum number of columns in a row; surplus ones are an error unless
    `ignores_surplus`.
    """

    texts: tuple
    labels: tuple = ()
    id: int | None = None
    header: bool = False
    language: tuple | None = None
    numbers: Mapping = dataclasses.field(default_factory=dict)
    names: tuple = ()
    width: int | None = None
    ignores_surplus: bool = False

    def name(self, position):
        return self.names[position] if self.names else str(position)

    def roles(self):
        texts = ("text",) if len(self.texts) == 1 else ("text_a", "text_b")
        return {
            **dict.fromkeys(self.numbers.values(), "number"),
            **({} if self.id is None else {self.id: "id"}),
            **dict.fromkeys(self.labels, "label"),
            **dict(zip(self.texts, texts, strict=True)),
        }

    def named(self):
        named = {"text_columns": self.texts, "label_column": self.labels}
        return {option: tuple(map(self.name, x)) for option, x in named.items() if x}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns that are given, by name or position; `find_columns` finds the others.

    A delimiter that a training run saved, `saved_delimiter`, is for delimited files only.
    `num_texts` is the number of texts of a trained model, for test files without a header.
    `trained_header` is "yes" if the training file had a header, "no" if not, None if unknown.
    """

    text: tuple = ()
    label: tuple = ()
    id: str | None = None
    header: str = "auto"
    separator: str = ","
    numbers: tuple = ()
    numeric_as: str = "vector"
    delimiter: str | None = None
    saved_delimiter: str | None = None
    num_texts: int | None = None
    trained_header: str | None = None

    @property
    def given_names(self):
        given = (*self.text, *self.label, *([self.id] if self.id else []), *self.numbers)
        return [name for name in given if not name.isdecimal()]

    def after_training(self, columns):
        """Return the layout of the other files of a run, given the training file's `Columns`."""
        if not columns.names:
            return dataclasses.replace(self, trained_header="no", num_texts=len(columns.texts))
        texts, labels = (tuple(map(columns.name, x)) for x in (columns.texts, columns.labels))
        found = {"id": self.id and columns.name(columns.id), "numbers": tuple(columns.numbers)}
        return dataclasses.replace(self, text=texts, label=labels, **found)


# Any of these names of texts marks the first line as a header.
TEXT_A = ("text", "text_a", "sentence", "sentence1")
TEXT_B = ("text_b", "sentence2", "text_pair")
LABEL = ("label",)
ID = ("index", "id", "idx")

# Other common names. Each could be a word of an example, so only names of both kinds mark a header.
_MORE_TEXT = ("review", "comment", "content", "message", "tweet", "document", "body")
_MORE_LABEL = (
    "labels", "sentiment", "category", "class", "target", "topic", "intent", "emotion", "rating",
    "score",
)  # fmt: skip
ANY_TEXT, ANY_LABEL = (*TEXT_A, *_MORE_TEXT), (*LABEL, *_MORE_LABEL)


def find_columns(table, row, layout, split, separator=None):
    """Find the columns of a table, given its first row.

    With a header, columns that `layout` does not give are found by their usual names, in any order.
    Without one, they are given by number, or are text, label or text_a, text_b, label. A test file
    may lack the label. `separator` is the character between labels, if a cell may have several.
    """
    place, names = table.header_place, tuple(name.strip() for name in row)
    if layout.header == "no":
        if table.format.has_names:
            raise UserError(
                f"`header=no`: found column names in {place}, whose format requires them; use "
                "`header=yes`, and name other columns with `text_columns` and `label_column`"
            )
        if named := layout.given_names:
            raise UserError(
                f"`header=no`: the column {named[0]!r} is given by name; use its number"
            )
    has_header = table.format.has_names or _has_header(table, names, layout, split, separator)
    if has_header or layout.text:
        columns = _by_layout(table, names if has_header else (), layout, split)
    else:
        columns = _by_count(place, len(names), layout, split)
    if split == "test":  # its labels, which may be missing, are not read
        labels = tuple(x for x in columns.labels if x < len(names) and x not in columns.texts)
        columns = dataclasses.replace(columns, labels=labels)
    counts = Counter([*columns.texts, *columns.labels])
    counts.update({*columns.labels}.intersection(columns.numbers.values()))
    if twice := [columns.name(position) for position, count in counts.items() if count > 1]:
        options = "`text_columns`, `label_column` and `numeric_columns`"
        raise UserError(f"{place}: the column {twice[0]!r} is used twice in {options}")
    return dataclasses.replace(columns, width=len(names))


def trained_header(saved):
    """Return whether the training file of `saved` columns had a header, None if it is unknown."""
    is_named = not are_numbers(saved.get("text_columns", ()))
    return saved.get("header") or ("yes" if is_named else None)


def are_numbers(columns):
    """Return whether no column is given by name."""
    return all(map(str.isdecimal, columns))


def is_header(names, given=()):
    """Return whether the cells of a line, in any case, are column names.

    They are if one is `given` or a usual name of a text, or if one is another common name of a text
    and one is a name of a label.
    """
    found = {name.lower() for name in names}
    if not found.isdisjoint([*map(str.lower, given), *TEXT_A, *TEXT_B]):
        return True
    return not (found.isdisjoint(_MORE_TEXT) or found.isdisjoint(ANY_LABEL))


def _has_header(table, names, layout, split, separator):
    if layout.header != "auto":
        return layout.header == "yes"
    place, line = table.header_place, ", ".join(names)
    # Other characters may break the message's line.
    line = "".join(x if x.isprintable() else repr(x)[1:-1] for x in line)
    given, trained = layout.given_names, layout.trained_header
    is_known = is_header(names, given)
    if is_known and (given or trained != "no"):
        return True
    if not given and (trained == "no" or layout.text):
        position = int(layout.label[0]) if layout.label and split != "test" else len(names)
        if is_known or (
            trained != "no"
            and (trained == "yes" or _may_be_header(table, names, position, separator))
        ):
            raise UserError(
                f"{place}: {line} may be a header or an example; use `header=yes` or `header=no`"
            )
        return False
    wanted = [name for name in layout.text if name in given] or given
    wanted = wanted or ["the usual name of a text column, such as text"]
    label = "" if split == "test" else " and `label_column=NAME`"
    example = "with `text_columns` by number, from 0"
    with contextlib.suppress(UserError):
        roles = sorted(_by_count(place, len(names), layout, split).roles().items())
        example = "to read " + ", ".join(f"{role} {names[i]!r:.40}" for i, role in roles)
        example += "; for other columns, also give their numbers, from 0, as `text_columns`"
        example += "" if split == "test" else " and `label_column`"
    raise UserError(
        f"{place}: found {line}, expected {' or '.join(wanted)}; if this is a header, use "
        f"`header=yes` with `text_columns=NAME`{label}; if it is an example, use `header=no` "
        f"{example}"
    )


def _may_be_header(table, names, position, separator):
    """Return whether the first row looks like a header that pandas wrote, or has a label's name.

    pandas may number the columns, and its index has no name. A label, at `position`,
    looks like a name if it is not a number and occurs only there, while the other labels are
    numbers or a few values that repeat.
    """
    if not names[0] or names == tuple(map(str, range(len(names)))):
        return True
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


def _by_layout(table, names, layout, split):
    def find(wanted, argument=None):
        if wanted[0].isdecimal() and wanted[0] not in names:
            position = int(wanted[0])
            if not names or position < len(names):
                return position
        name = find_column(table, names, wanted, argument)
        return None if name is None else names.index(name)

    def find_usual(wanted, others, argument, is_needed=True):
        """Return the position of a `wanted` name, or else of the only match in `others`."""
        position = find(wanted)
        found = [name for name in names if name.lower() in others] if position is None else []
        if len(found) > 1 and is_needed:
            raise choice_error(table, found, "one", wanted, argument)
        return find(found or wanted, argument if is_needed else None)

    texts = [find([name], "text_columns") for name in layout.text]
    needs_label = split != "test"
    others = {"", *ANY_LABEL, *ID, *(name.lower() for name in layout.numbers)}
    rest = [name for name in names if name.lower() not in others]
    text_a = TEXT_A if needs_label or len(rest) != 1 else (*TEXT_A, *rest)
    texts = texts or [find_usual(text_a, _MORE_TEXT, "text_columns"), find(TEXT_B)]
    labels = [find([name], "label_column" if needs_label else None) for name in layout.label]
    labels = labels or [find_usual(LABEL, _MORE_LABEL, "label_column", needs_label)]
    numbers = {name: find([name], "numeric_columns") for name in layout.numbers}
    return Columns(
        tuple(x for x in texts if x is not None),
        tuple(x for x in labels if x is not None),
        find([layout.id], "id_column") if layout.id else find(ID),
        header=bool(names),
        numbers={names[i] if names and x.isdecimal() else x: i for x, i in numbers.items()},
        names=tuple(names),
        ignores_surplus=not names,
    )


def _by_count(place, count, layout, split):
    """Return the `Columns` text, label or text_a, text_b, label; a test file may lack the label."""
    num_texts = count - 1
    if split == "test":
        num_texts = layout.num_texts or (1 if count == 1 else 0)
    if num_texts not in (1, 2) or not num_texts <= count <= num_texts + 1:
        raise UserError(
            f"{place}: found {counted(count, 'column')} without a header, expected text, label or "
            "text_a, text_b, label; select columns by number with `text_columns` and `label_column`"
        )
    if layout.label or layout.id or layout.numbers:
        raise UserError(
            "`label_column`, `id_column` and `numeric_columns` require `text_columns` or a header"
        )
    return Columns(tuple(range(num_texts)), tuple(range(num_texts, count)))
