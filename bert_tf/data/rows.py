"""The file of a split, its columns by name, and the handling of bad rows."""

import functools
import os

from bert_tf import console
from bert_tf.data.tables import named_rows, plain
from bert_tf.errors import UserError, reason
from bert_tf.io import files


def base_split(split):
    """Return "train", "dev" or "test" for a split: "dev" for "dev_mismatched"."""
    return split.partition("_")[0]


class BadRows:
    """Counts rows that cannot be used, or raises an error at the first one."""

    def __init__(self, skip=False):
        self.skip = skip
        self.count, self.first = 0, None

    def __call__(self, message):
        if not self.skip:
            # Arguments, which are named in `, have no such option.
            is_file = not message.startswith("`")
            raise UserError(message + " (`skip_bad_rows` skips such rows)" * is_file)
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
