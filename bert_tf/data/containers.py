"""Tables from the arguments of `fit`: lists, mappings, DataFrames and datasets."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Set

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.columns import class_names, plain_rows
from bert_tf.data.labels import as_name, read_number
from bert_tf.data.tables import TO_PYTHON, to_python
from bert_tf.errors import UserError, check_unicode, counted, shown

# Seconds after which a warning reports that data may be endless.
_WARNING_SECONDS = 10.0


# What the first argument of `fit` and `predict` may be.
_FORMS = (
    "texts in a list, tuple, Series, array or tensor; a list of tuples or a tuple of columns of "
    "texts; a list of dicts; a dict of columns; a DataFrame or another table; a tf.data.Dataset or "
    "PyDataset; or a list of InputExample"
)


def read_table(columns, arguments, names, required, known=(), known_labels=()):
    """Return the `Table` of the first arguments of `fit`, and the other arguments.

    Args:
      columns: the values of the arguments, None if not given. The first may be a table that also
        has the others, or a dataset of tuples.
      arguments: the names of the arguments, for messages.
      names: the name of each argument's column in the table, or a tuple of names if it may have
        several columns.
      required: the number of arguments that must be given, unless the first is a table.
      known: lower-case column names; the columns of a table without any of them are read in order.
      known_labels: those that cannot be columns of texts.
    """
    first, *others = columns
    first = list(_watched(first, arguments[0])) if isinstance(first, Iterator) else first
    if isinstance(first, (tf.data.Dataset, keras.utils.PyDataset)):
        first, others = _read_dataset(first, others, arguments)
    if len(others) >= len(arguments):
        count = 1 + len(others)
        raise UserError(f"`{arguments[0]}`: found {count} columns, expected {len(arguments)}")
    rest, others = others[: len(names) - 1], others[len(names) - 1 :]
    given = {
        x: y for x, *y in zip(names[1:], arguments[1:], rest, strict=False) if y[1] is not None
    }
    table = from_columns(first, arguments[0])
    if table is not None:
        _, header, _ = next(table.rows, (0, [], None))
        found = [str(name).lower() for name in header]
        is_by_name = not known or not {*found}.isdisjoint(known)
        if not given and (is_by_name or required > 1):
            return table._replace(rows=itertools.chain([(0, header, None)], table.rows)), others
        if given and not {*found}.isdisjoint(known_labels):
            raise UserError(
                f"`{arguments[1]}` cannot be combined with the columns "
                f"{', '.join(map(str, header))} of `{arguments[0]}`, which contain it; pass the "
                "texts only"
            )
        rows = list(table.rows)
        if known and is_by_name:
            for name, (argument, column) in given.items():
                values = check_list(column, argument)
                check_same_length(arguments[0], rows, argument, values)
                header = [*header, name]
                pairs = zip(rows, plain_rows(values), strict=True)
                rows = [(i, [*row, x], problem or y) for (i, row, problem), (_, x, y) in pairs]
            return table._replace(rows=iter([(0, header, None), *rows])), others
        for number, _, problem in rows:
            if problem:
                raise UserError(f"{table.place(number)}: {problem}")
        if len(header) > 1:
            used = f"columns of `{arguments[0]}`: {', '.join(map(str, header))}"
            if isinstance(names[0], tuple) and len(header) > len(names[0]):
                raise UserError(f"{used}; expected at most {len(names[0])} columns of texts")
            console.notice("%s; all are read as texts, in this order", used)
        first = [row[0] if len(header) == 1 else tuple(row) for _, row, _ in rows]
    if (count := (first is not None) + len(given)) < required:
        if len({*arguments}) < len(arguments):  # validation data
            raise UserError(
                f"`{arguments[0]}`: found {count} columns, expected a tuple of {required}"
            )
        missing = next(x for x, y in itertools.zip_longest(arguments, columns) if y is None)
        advice = "; of a list of tuples, pass the columns: `texts, labels = zip(*data)`"
        are_tuples = isinstance(first, list) and first and isinstance(first[0], tuple)
        raise UserError(f"`{missing}` must be given{advice * are_tuples}")
    values = {}
    for name, (argument, column) in {names[0]: (arguments[0], first), **given}.items():
        if isinstance(name, tuple):
            parts = split_texts(column, argument, range(1, len(name) + 1))
            values |= dict(zip(name, parts, strict=False))
            parts = parts[0]
        else:
            values[name] = parts = check_list(column, argument)
        check_same_length(arguments[0], next(iter(values.values())), argument, parts)
    return from_columns(values, arguments[0]), others


def _watched(items, argument):
    """Yield the items, with a warning after some seconds, because there may be no end."""
    end = time.monotonic() + _WARNING_SECONDS
    for count, item in enumerate(items):
        if time.monotonic() > end:
            message = "`%s`: %d items read, and there are more; they must end, because all are read"
            console.warning(f"{message} before the first step", argument, count)
            end = math.inf
        yield item


def _read_dataset(dataset, others, arguments):
    """Read a dataset of tuples or single values; return its first column and the others."""
    is_py = isinstance(dataset, keras.utils.PyDataset)
    if (dataset.num_batches if is_py else dataset.cardinality()) in (None, -1):
        raise UserError(f"`{arguments[0]}`: found an endless dataset, expected a finite one")
    if is_py:
        items, is_batch = [dataset[i] for i in range(dataset.num_batches)], True
    else:
        items = list(_watched(dataset.as_numpy_iterator(), arguments[0]))
        spec = dataset.element_spec
        texts = tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)
        is_batch = all(x.shape.rank != 0 for x in texts)
    if not items:
        raise UserError(f"`{arguments[0]}`: found an empty dataset")
    columns = _concatenate([x if isinstance(x, tuple) else (x,) for x in items], is_batch)
    if len(columns) > 1:
        for argument in (x for x, y in zip(arguments[1:], others, strict=False) if y is not None):
            raise UserError(f"`{argument}` cannot be combined with a dataset as `{arguments[0]}`")
    return columns[0], [*columns[1:], *others[len(columns) - 1 :]]


def _concatenate(items, is_batch):
    """Return the rows of batches, or of single rows, in the structure of an item."""
    if isinstance(items[0], Mapping):
        return {name: _concatenate([x[name] for x in items], is_batch) for name in items[0]}
    if isinstance(items[0], tuple):
        return tuple(_concatenate(x, is_batch) for x in zip(*items, strict=True))
    if not is_batch:
        return list(items)
    rows = (x.to_list() if hasattr(x, "to_list") else x for x in items)  # of a ragged batch
    return [x for row in rows for x in (row if isinstance(row, list) else np.atleast_1d(row))]


def from_columns(values, argument):
    """Return the `Table` of a container with named columns; None if `values` is not one.

    A container is a DataFrame of pandas or Polars, a table of Arrow, a `datasets.Dataset`, a
    mapping from names to columns or, for a single row, to cells, or a list or another iterable of
    dicts.
    """
    _check_loaded(values, argument)
    names_by_column = {}
    if isinstance(values, Mapping):
        is_row = any(map(_is_cell, values.values()))
        rows = _rows_of_dicts([values]) if is_row else _rows_of_columns(values.items(), argument)
    elif isinstance(getattr(values, "format", None), Mapping):  # datasets.Dataset
        names_by_column = class_names(values.features)
        if values.format["type"] != "custom":  # a transform, whose columns are unknown
            values = values.with_format(None)
        rows = _rows_of_columns(values[:].items(), argument)
    elif hasattr(values, "columns"):  # of pandas, Polars or Arrow
        names = getattr(values, "column_names", values.columns)
        is_pandas = hasattr(values, "items")
        columns = values.items() if is_pandas else zip(names, values, strict=True)
        rows = _rows_of_columns(columns, argument)
    elif _is_cell(values) or not isinstance(values, Iterable):
        return None
    elif isinstance(next(iter(values), None), Mapping):
        names_by_column = class_names(getattr(values, "features", None) or {})
        rows = _rows_of_dicts(values)
    else:
        return None
    return tables.Table(f"`{argument}`", tables.TableFormat("columns"), rows, names_by_column)


def _rows_of_columns(columns, argument):
    columns = [(str(name), _as_list(column, argument)) for name, column in columns]
    if len({len(column) for _, column in columns}) > 1:
        found = ", ".join(f"{name} {len(column)}" for name, column in columns)
        raise UserError(f"`{argument}`: expected columns of the same length, found {found}")

    def rows():
        yield 0, [name for name, _ in columns], None
        yield from plain_rows(zip(*(column for _, column in columns), strict=True))

    return rows()


def _rows_of_dicts(rows):
    return tables.object_rows(plain_rows(rows))


def _as_list(column, argument):
    method = next((x for x in TO_PYTHON if hasattr(column, x)), None)
    values = getattr(column, method)() if method else column
    return check_list(values, argument, "a list for each column")


def _is_cell(value):
    return isinstance(value, (str, bytes, int, float)) or getattr(value, "shape", None) == ()


def _check_loaded(values, argument):
    """Raise UserError for a lazy table of Polars or Dask, and for a structured array."""
    if method := next((x for x in ("collect", "compute") if hasattr(type(values), x)), None):
        raise UserError(f"`{argument}`: found a {type(values).__name__}; pass its .{method}()")
    if getattr(getattr(values, "dtype", None), "names", None):
        raise UserError(f"`{argument}`: found a structured array, expected {_FORMS}")


def check_list(values, argument, expected="a list"):
    """Convert a list, array or series to a list; raise UserError for anything else."""
    _check_loaded(values, argument)
    if isinstance(values, tf.Tensor):
        values = values.numpy()
    if isinstance(values, (str, bytes, Mapping, Set)):  # `list` would return letters or keys
        found = type(values).__name__
        raise UserError(f"`{argument}`: found a single {found}, expected {expected}")
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # of pandas or Polars
        values = values.to_numpy()
        values = values[:, 0] if values.shape[1] == 1 else values
    try:
        return list(values)
    except TypeError:
        raise UserError(f"`{argument}`: found {values!r:.50}, expected {expected}") from None


def label_names(labels):
    """Return the argument `labels` as a list of str; UserError if an item is not a label.

    A label is a text, a number or a boolean, as in the data.
    """
    labels = check_list(labels, "labels", "a list of labels")
    try:
        return [as_name(to_python(x)) for x in labels]
    except ValueError as error:
        raise UserError(f"`labels`: {error}") from None


def iterate_texts(texts, argument):
    """Yield the texts of an iterable as str; an iterator is read lazily."""
    spec = getattr(texts, "element_spec", None)
    if isinstance(spec, tf.TensorSpec) and spec.shape.rank:  # a dataset of batches
        texts = texts.unbatch()
    if not isinstance(texts, Iterator):
        texts = check_list(texts, argument, "a list of texts")
    for i, text in enumerate(texts):
        yield _check_text(to_python(text, "replace"), f"`{argument}`: item {i}")


def _check_text(text, where):
    if not isinstance(text, str):
        raise UserError(f"{where} is {text!r:.50}, expected a text")
    check_unicode(text, where)
    return text


def split_texts(texts, argument, counts):
    """Return the columns of texts, lists of str.

    `texts` is a list of str, a list of tuples of str, or a tuple of lists of str; `counts` are the
    valid numbers of columns. A missing text is None.
    """
    numbers = " or ".join(map(str, counts))
    if isinstance(texts, tuple) and len(texts) in counts and all(map(_is_column, texts)):
        if all(isinstance(x, tuple) and len(x) == len(texts) for x in texts):
            raise UserError(
                f"`{argument}`: found a tuple of tuples of {len(texts)} texts, which is ambiguous; "
                "expected a list of tuples or a tuple of lists"
            )
        columns = [check_list(x, argument) for x in texts]
        for i, column in enumerate(columns):
            check_same_length(f"{argument}[0]", columns[0], f"{argument}[{i}]", column)
        texts = list(zip(*columns, strict=True))
    rows = []
    for i, item in enumerate(check_list(texts, argument, _FORMS)):
        where = f"`{argument}`: item {i}"
        value = to_python(item, "replace")
        row = value if isinstance(value, list) else [value]
        if len(row) not in counts:
            raise UserError(f"{where} is {shown(item)}, expected {numbers} texts")
        rows.append([None if tables.is_missing(x) else _check_text(x, where) for x in row])
    width = max(map(len, rows), default=1)
    rows = [[*row, *[None] * (width - len(row))] for row in rows]
    return [list(column) for column in zip(*rows, strict=True)] or [[]]


def check_same_length(argument, values, other_argument, others):
    if len(values) != len(others):
        raise UserError(
            f"`{argument}` and `{other_argument}`: found {len(values)} and {len(others)} items, "
            "expected the same number"
        )


def _is_column(values):
    # Scalar strings of NumPy and TensorFlow have the shape ().
    return isinstance(values, (list, tuple)) or len(getattr(values, "shape", ())) > 0


def check_numbers(values, argument, count):
    """Convert values to a list of `count` finite numbers; raise UserError for anything else."""
    values = check_list(values, argument, "a list of numbers")
    values = [x[0] if getattr(x, "shape", ()) == (1,) else x for x in values]
    if len(values) != count:
        raise UserError(f"`{argument}`: found {counted(len(values), 'number')}, expected {count}")
    try:
        return [read_number(to_python(x), f"item {i}") for i, x in enumerate(values)]
    except ValueError as error:
        raise UserError(f"`{argument}`: {error}") from None


def split_last(examples, share):
    """Return training and development examples; the last ones are for development."""
    size = len(examples)
    first = size - int(size * share)
    if not 0 < first < size:
        raise UserError(
            f"`validation_split={share}`: expected a fraction from 0 to 1 that leaves some of the "
            f"{size} examples on both sides"
        )
    return {"train": examples[:first], "dev": examples[first:]}
