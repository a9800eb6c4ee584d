"""Tables from Python containers: mappings, DataFrames, datasets and lists of dicts."""

from collections.abc import Mapping

import numpy as np

from bert_tf.data import tables
from bert_tf.errors import UserError, reason

# Methods of arrays, tensors, ragged tensors and series.
_TO_PYTHON = ("to_list", "tolist", "numpy")


def from_columns(values, argument):
    """Return the `Table` of a container with named columns; None if `values` is not one.

    A container is a DataFrame of pandas or Polars, a `datasets.Dataset`, a `tf.data.Dataset` of
    dicts or of batches of them, a mapping from names to columns or, for a single row, to cells, or
    a list of dicts.
    """
    label_names = {}
    if hasattr(values, "element_spec"):  # tf.data.Dataset
        import tensorflow as tf

        if not isinstance(values.element_spec, Mapping):
            return None
        elements = list(values.as_numpy_iterator())
        if any(spec.shape.rank == 0 for spec in tf.nest.flatten(values.element_spec)):
            rows = _rows_of_dicts(elements)
        else:
            names = values.element_spec
            rows = _rows_of_columns(
                {name: [x for batch in elements for x in _as_list(batch[name])] for name in names},
                argument,
            )
    elif isinstance(values, Mapping):
        is_row = any(map(_is_cell, values.values()))
        rows = _rows_of_dicts([values]) if is_row else _rows_of_columns(values, argument)
    elif hasattr(values, "column_names") and hasattr(values, "features"):  # datasets.Dataset
        label_names = class_names(values.features)
        if values.format["type"] != "custom":  # a transform, whose columns are unknown
            values = values.with_format(None)
        rows = _rows_of_columns(values[:], argument)
    elif hasattr(values, "columns") and hasattr(values, "to_numpy"):  # of pandas or Polars
        names = list(map(str, values.columns))
        if repeated := [name for name in names if names.count(name) > 1]:
            raise UserError(f"`{argument}`: found the column {repeated[0]!r} twice")
        rows = _rows_of_columns({name: values[name] for name in values.columns}, argument)
    elif isinstance(values, list) and values and isinstance(values[0], Mapping):
        rows = _rows_of_dicts(values)
    else:
        return None
    return tables.Table(f"`{argument}`", tables.TableFormat("columns"), rows, label_names)


def _rows_of_columns(columns, argument):
    columns = {str(name): _as_list(column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(f"`{argument}`: expected columns of the same length, found {found}")

    def rows():
        yield 0, list(columns), None
        yield from plain_rows(zip(*columns.values(), strict=True))

    return rows()


def _rows_of_dicts(rows):
    return tables.object_rows(plain_rows(rows))


def _as_list(column):
    for method in _TO_PYTHON:
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _is_cell(value):
    return isinstance(value, (str, bytes, int, float)) or getattr(value, "shape", None) == ()


def plain(value):
    """Convert a value of a container to Python values; UnicodeDecodeError for other encodings."""
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, Mapping):
        return {str(name): plain(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if isinstance(value, np.floating):
        return float(str(value))  # 0.1, not 0.10000000149011612, for a float32
    if isinstance(value, np.generic):
        return plain(value.item())
    for method in _TO_PYTHON:
        if hasattr(value, method):
            return plain(getattr(value, method)())
    return None if type(value).__name__ == "NAType" else value  # of pandas


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
