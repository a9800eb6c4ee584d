"""Tables as arguments: mappings, data frames and datasets with named columns."""

import functools
import inspect
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError


def with_columns(**names):
    """Return a decorator that lets a method take a table as its first argument.

    A table is a mapping from names to columns, a `datasets.Dataset`, a `tf.data.Dataset` whose
    batches are mappings, or a DataFrame with known column names. Its columns fill arguments that
    are not given. `names` has a tuple of accepted column names for each argument or, if an argument
    has several columns, a list of tuples, of which only the first column is required.
    """

    def decorate(method):
        signature = inspect.signature(method)
        first, *_ = names

        @functools.wraps(method)
        def call(*arguments, **options):
            try:
                bound = signature.bind_partial(*arguments, **options)
            except TypeError:
                return method(*arguments, **options)
            columns = _read(bound.arguments.get(first), first, names)
            if columns is not None:
                self = bound.arguments.get("self")
                given = bound.arguments.keys() - {first}
                for name in names.keys() & signature.parameters.keys() - given:
                    if name in columns:
                        bound.arguments[name] = _match_labels(self, *columns[name])
                    elif signature.parameters[name].default is inspect.Parameter.empty:
                        raise UserError(f"`{name}`: the table has no column {_names(names[name])}")
            table = bound.arguments.get("validation_data")
            columns = _read(table, "validation_data", names)
            if columns is not None:
                self = bound.arguments.get("self")
                values = [_match_labels(self, *columns[x]) for x in names if x in columns]
                values = values[0] if len(values) == 1 else tuple(values)
                bound.arguments["validation_data"] = values
            arguments = dict(bound.arguments)
            options = arguments.pop("options", {})
            return method(**arguments, **options)

        return call

    return decorate


def _read(values, argument, names):
    """Return a dict from arguments to (column, label names); None if `values` is not a table."""
    columns, features = _table_columns(values)
    if columns is None:
        return None
    first, *_ = names
    lowered = {str(name).lower(): name for name in columns}
    results, used = {}, set()
    for name, wanted in names.items():
        parts = wanted if isinstance(wanted, list) else [wanted]
        present = [next((lowered[x] for x in part if x in lowered), None) for part in parts]
        present = present[: present.index(None)] if None in present else present
        used.update(present)
        if present:
            labels = _label_names((features or {}).get(present[0]))
            present_columns = [_as_list(columns[x]) for x in present]
            if len(present) == 1:
                (column,) = present_columns
            elif name == first:
                column = tuple(present_columns)
            else:
                column = [list(row) for row in zip(*present_columns, strict=True)]
            results[name] = column, labels
    is_frame = hasattr(values, "to_numpy")
    if is_frame and (first not in results or (len(columns) == 2 and len(used) < 2)):
        is_text = all(np.asarray(column).dtype.kind in "OSTU" for column in columns.values())
        if is_text and len(columns) > 1:
            log = console.notice if first in results else console.warning
            log(
                "columns of `%s`: %s; all are read as texts, in this order",
                argument, ", ".join(map(str, columns)),
            )  # fmt: skip
        if is_text:
            return None  # its rows are the texts
    if first not in results:
        raise UserError(
            f"`{argument}`: found the columns {', '.join(map(str, columns)) or '(none)'}, expected "
            f"{_names(names[first])}; columns with other names can be passed instead of the table"
        )
    ignored = ", ".join(str(x) for x in columns if x not in used)
    console.notice(
        "columns of `%s`: %s%s",
        argument, ", ".join(x for x in columns if x in used),
        f"; ignored: {ignored}" if ignored else "",
    )  # fmt: skip
    return results


def _table_columns(values):
    """Return the columns of a table by name, and the features of a `datasets.Dataset`, or None."""
    if isinstance(values, tf.data.Dataset):
        if not isinstance(values.element_spec, Mapping):
            return None, None
        batches = list(values.as_numpy_iterator())
        keys = values.element_spec
        parts = {key: [np.atleast_1d(batch[key]) for batch in batches] for key in keys}
        return {key: np.concatenate(x) if x else [] for key, x in parts.items()}, None
    if isinstance(values, Mapping):
        return values, None
    if hasattr(values, "column_names") and hasattr(values, "features"):  # datasets.Dataset
        return {name: values[name] for name in values.column_names}, values.features
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # of pandas or Polars
        return {name: values[name] for name in values.columns}, None
    return None, None


def _as_list(column):
    if isinstance(column, tf.Tensor):
        column = column.numpy()
    return [x.decode("utf-8") if isinstance(x, bytes) else x for x in column]


def _label_names(feature):
    """Return the names of a `datasets.ClassLabel`, or of a list feature with it, or None."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _match_labels(pipeline, values, names):
    """Convert the ids of a `datasets.ClassLabel` to label names if the model has the same names."""
    labels = getattr(getattr(pipeline, "config", None), "labels", ())
    if not names or not labels:
        return values
    if len(names) != len(labels):
        raise UserError(
            f"the dataset has the labels {', '.join(names)}, expected the labels of the model: "
            f"{', '.join(labels)}"
        )
    if set(names) != set(labels):
        console.info("labels %s are read as %s", ", ".join(names), ", ".join(labels))
        return values
    return [[names[y] for y in x] if isinstance(x, list) else names[x] for x in values]


def _names(wanted):
    wanted = wanted[0] if isinstance(wanted, list) else wanted
    return " or ".join(wanted)
