"""Tables from the arguments of `fit`: lists, mappings, DataFrames and datasets."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Set

import keras
import tensorflow as tf

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.columns import ID, class_names, plain_rows
from bert_tf.data.labels import as_name, read_number
from bert_tf.data.tables import to_python
from bert_tf.errors import UserError, abbreviate, check_unicode, counted, shown

# Seconds after which a warning reports that data may be endless.
_WARNING_SECONDS = 10.0

# What the first argument of `fit`, `evaluate` and `predict` may be.
_FORMS = (
    "texts in a list, tuple, Series, array or tensor; a list of tuples or a tuple of columns of "
    "texts; a list of dicts; a dict of columns; a DataFrame or another table; a tf.data.Dataset or "
    "PyDataset; or a list of InputExample"
)
_DATASETS = (tf.data.Dataset, keras.utils.PyDataset)


def read_table(columns, arguments, names, required, texts=(), labels=(), others=ID):
    """Return the `Table` of the first arguments of `fit`, and the other arguments.

    The columns of a table are read by name if any name is known, else in order, as texts.

    Args:
      columns: the values of the arguments, None if not given. The first may be a table that also
        has the others, or a dataset of tuples.
      arguments: the names of the arguments, for messages.
      names: the name of each argument's column in the table, or a tuple of names if it may have
        several columns.
      required: the number of arguments that must be given, unless the first is a table.
      texts: for each column of texts, its known lower-case names; by default, those in `names`.
      labels: known names of the second argument in a table.
      others: known names of columns that a table of texts may have.
    """
    first, *rest = columns
    argument = arguments[0]
    num_others = len(names) - 1
    if isinstance(first, _DATASETS):
        for other in (x for x, y in zip(arguments[1:], rest, strict=False) if y is not None):
            found = f"`{other}` cannot be combined with a dataset as `{argument}`"
            raise UserError(f"{found}; use a dataset of tuples that contain it")
        first, *rest = _read_dataset(first, argument)
        if isinstance(first, dict) and rest:  # (dict, labels), as in Keras
            rest = [None] * (num_others - 1) + rest
    elif isinstance(first, Iterator):
        first = list(_watched(first, argument))
    if len(rest) >= len(arguments):
        raise UserError(f"`{argument}`: found {1 + len(rest)} columns, expected {len(arguments)}")
    rest += [None] * (len(arguments) - 1 - len(rest))
    extra = [x for x in zip(names[1:], arguments[1:], rest, strict=False) if x[2] is not None]
    found, lists, label_names = _named_columns(first, argument) or ((), (), {})
    lowered, roles = [x.lower() for x in found], texts or [(x,) for x in names]
    is_by_name = not {*itertools.chain(*roles), *labels, *others}.isdisjoint(lowered)
    text_names = names[0] if isinstance(names[0], tuple) else names[:1]
    if is_by_name or len(found) > len(text_names) or (found and required > 1 and not extra):
        in_order = [x for role in roles for x in lowered if x in role]
        if extra and texts and in_order != [x for x in lowered if x not in others]:
            raise UserError(
                f"`{extra[0][1]}` cannot be combined with the columns {', '.join(found)} of "
                f'`{argument}`; pass only the texts, such as df["text"], or a tuple of two '
                'columns, such as (df["question"], df["answer"])'
            )
        named_lists = list(zip(found, lists, strict=True))
    else:
        if found:
            first = lists[0] if len(found) == 1 else tuple(lists)
        if len(found) > 1:
            message = "columns of `%s`: %s; all are read as texts, in this order"
            console.notice(message, argument, ", ".join(found))
        given_columns = zip(arguments[:required], [first, *rest], strict=False)
        for missing in (x for x, y in given_columns if y is None):
            if missing == argument and first is not None:  # validation data
                raise UserError(f"`{argument}`: expected a table or a tuple of {required} columns")
            advice = f"; split a list of tuples by `{', '.join(arguments[:required])} = zip(*data)`"
            advice = advice if isinstance(first, list) else ""
            raise UserError(f"`{missing}` must be given{advice}")
        if text_names is names[0]:
            lists = _split_texts(first, argument, len(text_names))
        else:
            lists = [check_list(first, argument)]
        named_lists = list(zip(text_names, lists, strict=False))
    for name, other, column in extra:
        named_lists.append((name, check_list(column, other)))
        check_same_length(argument, lists[0], other, named_lists[-1][1])
    header = (0, [name for name, _ in named_lists], None)
    rows = itertools.chain([header], plain_rows(zip(*(x for _, x in named_lists), strict=True)))
    table_format = tables.TableFormat("columns")
    return tables.Table(f"`{argument}`", table_format, rows, label_names), rest[num_others:]


def _watched(items, argument):
    """Yield the items, with a warning after some seconds, because there may be no end."""
    end = time.monotonic() + _WARNING_SECONDS
    for count, item in enumerate(items):
        if time.monotonic() > end:
            message = "`%s`: %d items read, and there are more; they must end, because all are read"
            console.warning(f"{message} before the first step", argument, count)
            end = math.inf
        yield item


def _read_dataset(dataset, argument):
    """Return the columns of a dataset of tuples or single values, as lists.

    The first may be a tuple or a dict of columns.
    """
    is_py = isinstance(dataset, keras.utils.PyDataset)
    size = dataset.num_batches if is_py else dataset.cardinality()
    if size in (None, -1):
        raise UserError(f"`{argument}`: found an endless dataset, expected a finite one")
    items = map(dataset.__getitem__, range(size)) if is_py else dataset.as_numpy_iterator()
    items = [x if isinstance(x, tuple) else (x,) for x in _watched(items, argument)]
    if not items:
        raise UserError(f"`{argument}`: found an empty dataset")
    texts = items[0][0]
    if not isinstance(texts, tuple):
        texts = texts.values() if isinstance(texts, Mapping) else (texts,)
    return _joined(items, any(map(_is_cell, texts)))


def _joined(items, is_single):
    """Return the rows of all batches, or single rows, in the structure of an item."""
    if isinstance(items[0], Mapping):
        return {name: _joined([x[name] for x in items], is_single) for name in items[0]}
    if isinstance(items[0], tuple):
        return tuple(_joined(x, is_single) for x in zip(*items, strict=True))
    rows = ([x] if is_single or _is_cell(x) else check_list(x, "dataset") for x in items)
    return list(itertools.chain.from_iterable(rows))


def _named_columns(values, argument):
    """Return the names and the lists of columns, and the names of class labels by column.

    Returns None for a container without names of columns.
    """
    _check_loaded(values, argument)
    features = getattr(values, "features", None) or {}  # of `datasets`
    if isinstance(values, Mapping):
        is_row = any(map(_is_cell, values.values()))
        columns = [(name, [x] if is_row else x) for name, x in values.items()]
    elif isinstance(getattr(values, "format", None), Mapping):  # datasets.Dataset
        if values.format["type"] != "custom":  # a transform, whose columns are unknown
            values = values.with_format(None)
        columns = values[:].items()
    elif hasattr(values, "columns"):  # of pandas, which has `items`, Polars or Arrow
        names = getattr(values, "column_names", values.columns)
        columns = values.items() if hasattr(values, "items") else zip(names, values, strict=True)
    elif _is_cell(values):
        return None
    else:
        first = next(iter(values), None)  # a list of a tensor's rows would take long
        if not (hasattr(first, "text_a") or isinstance(first, Mapping)):
            return None
        rows = [_fields(x) if hasattr(x, "text_a") else x for x in values]
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise UserError(f"`{argument}`, item {i}: found {shown(row)}, expected a dict")
        names = dict.fromkeys(itertools.chain.from_iterable(rows))
        columns = [(name, [row.get(name) for row in rows]) for name in names]
    columns = [(str(x), check_list(y, argument, "a list for each column")) for x, y in columns]
    if len({len(column) for _, column in columns}) > 1:
        found = ", ".join(f"{name} {len(column)}" for name, column in columns)
        raise UserError(f"`{argument}`: expected columns of the same length, found {found}")
    names, lists = zip(*columns, strict=True) if columns else ((), ())
    return names, lists, class_names(features)


def _fields(example):
    """Return the fields of an `InputExample` that are not None as a dict of columns."""
    fields = {"text_a": example.text_a, "text_b": example.text_b or None, "label": example.label}
    return {name: value for name, value in fields.items() if value is not None}


def list_rows(values, argument):
    """Return the rows of a container as a list; dicts, if its columns have names."""
    if isinstance(values, _DATASETS):
        values, *_ = _read_dataset(values, argument)
    if named := _named_columns(values, argument):
        names, lists, _ = named
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    return check_list(values, argument, "a list of rows")


def _is_cell(value):
    if hasattr(value, "shape"):  # () for scalars of NumPy and TensorFlow
        return value.shape == ()
    return isinstance(value, (str, bytes)) or not isinstance(value, Iterable)


def _check_loaded(values, argument):
    """Raise UserError if `values` are lazy, sparse, a structured array or several tables."""
    if getattr(getattr(values, "dtype", None), "names", None):
        raise UserError(f"`{argument}`: found a structured array, expected {_FORMS}")
    kind = type(values)
    advice = [f"; pass its .{x}()" for x in ("collect", "compute") if hasattr(kind, x)]
    if isinstance(values, Mapping):  # such as a DatasetDict
        names = (name for name, x in values.items() if hasattr(x, "column_names"))
        advice = [f" of tables; pass one, such as data[{name!r}]" for name in names]
    if kind is tf.SparseTensor:
        advice = [f", expected {_FORMS}"]
    if advice:
        raise UserError(f"`{argument}`: found a {kind.__name__}{advice[0]}")


def check_list(values, argument, expected="a list"):
    """Convert a list, array, series or table to a list; raise UserError if it is none of these."""
    _check_loaded(values, argument)
    if isinstance(values, _DATASETS):
        values, *_ = _read_dataset(values, argument)
    if isinstance(values, (Mapping, Set)) or _is_cell(values):  # `list` would return keys
        found = "None" if values is None else f"a single {type(values).__name__}"
        raise UserError(f"`{argument}`: found {found}, expected {expected}")
    if hasattr(values, "columns"):
        _, lists, _ = _named_columns(values, argument)
        return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
    if isinstance(values, tf.Tensor):
        values = values.numpy()
    # A ragged batch is not iterable.
    return values.to_list() if hasattr(values, "to_list") else list(values)


def ordered_columns(labels, names, argument):
    """Return labels; a table with a column for each label has its rows in the order of `names`.

    The columns have the names of the labels, or numbers. A single column has any name.
    """
    if not hasattr(labels, "columns"):
        return labels
    columns, lists, _ = _named_columns(labels, argument)
    if sorted(columns) == sorted(names):
        lists = [lists[columns.index(name)] for name in names]
    elif len(columns) == 1:
        return lists[0]
    elif columns != tuple(map(str, range(len(columns)))):
        expected = f"expected one, or one for each of the labels {abbreviate(names, 20)}"
        raise UserError(f"`{argument}`: found the columns {abbreviate(columns, 20)}, {expected}")
    return list(zip(*lists, strict=True))


def label_names(labels):
    """Return the argument `labels` as a list of str; raise UserError if an item is not a label.

    A label is a text, a number or a boolean, as in the data.
    """
    labels = check_list(labels, "labels", "a list of labels")
    try:
        return [as_name(to_python(x)) for x in labels]
    except ValueError as error:
        raise UserError(f"`labels`: {error}") from None


def iterate_texts(texts, argument):
    """Yield the texts of an iterable as str; an iterator is read lazily."""
    if not isinstance(texts, Iterator):
        texts = check_list(texts, argument, "a list of texts")
    for i, text in enumerate(texts):
        yield _check_text(to_python(text, "replace"), f"`{argument}`: item {i}")


def _check_text(text, where):
    if not isinstance(text, str):
        raise UserError(f"{where} is {text!r:.50}, expected a text")
    check_unicode(text, where)
    return text


def _split_texts(texts, argument, limit):
    """Return at most `limit` columns of texts, lists of str or None.

    `texts` is a list of str, a list of tuples of str, or a tuple of columns.
    """
    if isinstance(texts, tuple) and 0 < len(texts) <= limit and not any(map(_is_cell, texts)):
        if all(isinstance(x, tuple) and len(x) == len(texts) for x in texts):
            found = f"found a tuple of tuples of {len(texts)} texts, which is ambiguous"
            expected = "expected a list of tuples or a tuple of lists"
            raise UserError(f"`{argument}`: {found}; {expected}")
        columns = [check_list(x, argument) for x in texts]
        for i, column in enumerate(columns):
            check_same_length(f"{argument}[0]", columns[0], f"{argument}[{i}]", column)
        texts = list(zip(*columns, strict=True))
    rows = []
    for i, item in enumerate(check_list(texts, argument, _FORMS)):
        where, value = f"`{argument}`: item {i}", to_python(item, "replace")
        row = value if isinstance(value, list) else [value]
        if not 0 < len(row) <= limit:
            numbers = " or ".join(map(str, range(1, limit + 1)))
            raise UserError(f"{where} is {shown(item)}, expected {numbers} texts")
        rows.append([None if tables.is_missing(x) else _check_text(x, where) for x in row])
    return list(itertools.zip_longest(*rows)) or [[]]


def check_same_length(argument, values, other_argument, others):
    if len(values) != len(others):
        found = f"found {len(values)} and {len(others)} items, expected the same number"
        raise UserError(f"`{argument}` and `{other_argument}`: {found}")


def check_numbers(values, argument, count):
    """Convert values to a list; raise UserError if they are not `count` finite numbers."""
    values = check_list(values, argument, "a list of numbers")
    values = [x[0] if getattr(x, "shape", ()) == (1,) else x for x in values]
    if len(values) != count:
        raise UserError(f"`{argument}`: found {counted(len(values), 'number')}, expected {count}")
    try:
        return [read_number(to_python(x), f"item {i}") for i, x in enumerate(values)]
    except ValueError as error:
        raise UserError(f"`{argument}`: {error}") from None


def split_last(examples, share):
    """Return training and development examples, the last ones, rounded as Keras does."""
    size = len(examples)
    first = math.floor(size * (1.0 - share))
    if not 0 < first < size:
        expected = f"a fraction from 0 to 1 that leaves some of the {size} examples on both sides"
        raise UserError(f"`validation_split={share}`: expected {expected}")
    return {"train": examples[:first], "dev": examples[first:]}
