"""Rows of a split, from files or tensorflow-datasets, and the handling of bad rows."""

import os

import tensorflow as tf

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.tfds_builder import load_builder
from bert_tf.errors import UserError, counted, reason
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
            raise UserError(f"{message} (`skip_bad_rows` skips such rows)")
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

    def report(self, what="bad rows skipped"):
        if self.count:
            console.warning("%s: %d, the first: %s", what, self.count, self.first)


def find_file(split, names, data_dir=None, path=None):
    """Return the file of a split: `path` if given, else the first of `names` in `data_dir`."""
    argument = f"{base_split(split)}_file"
    if path:
        return files.require(path, argument)
    if not data_dir:
        raise UserError(f"`data_dir` or `{argument}` must be given")
    for name in names:
        if tf.io.gfile.exists(os.path.join(data_dir, name)):
            return files.require(os.path.join(data_dir, name), "data_dir")
    if not tf.io.gfile.isdir(data_dir):
        raise UserError(f"`data_dir`: there is no folder {data_dir}")
    raise UserError(
        f"`data_dir={data_dir}`: found no {' or '.join(names)}; for a file with another name use "
        f"`{argument}`"
    )


def find_column(path, names, wanted, argument=None):
    """Return the column with one of the `wanted` names, ignoring case; else None or a UserError."""
    lowered = [name.lower() for name in names]
    for name in wanted:
        key, candidates = (name, names) if name in names else (name.lower(), lowered)
        if candidates.count(key) > 1:
            raise UserError(f"{path}, line 1: found the column {name!r} twice")
        if key in candidates:
            return names[candidates.index(key)]
    if argument:
        raise UserError(
            f"{path}, line 1: found the columns {names}, expected "
            f"{' or '.join(map(repr, wanted))}; select the column with `{argument}`"
        )
    return None


def read_named_rows(path, table_format=None):
    """Return the column names and an iterator of (place, dict, or str that describes a bad row)."""
    rows = tables.read_rows(path, table_format)
    number, names, problem = next(rows, (1, [], "the file is empty"))
    if problem:
        raise UserError(f"{path}, line {number}: {problem}")
    names = [str(name).strip() for name in names]

    def named(cells, problem):
        if not problem and len(cells) != len(names):
            # An unquoted comma, for example, shifts the following columns.
            problem = (
                f"found {counted(len(cells), 'column')}, expected {len(names)} as in the first line"
            )
        try:
            return problem or dict(zip(names, map(tables.as_text, cells), strict=True))
        except ValueError as error:
            return str(error)

    return names, ((f"{path}, line {number}", named(*row)) for number, *row in rows)


class TfdsRows:
    """The rows of a dataset from tensorflow-datasets, which is prepared if necessary."""

    def __init__(self, name, data_dir=None):
        self._builder, self.name = load_builder(name, data_dir), name
        self.features = self._builder.info.features
        self.supervised_keys = self._builder.info.supervised_keys or (None, None)

    def find_feature(self, names, argument=None):
        """Return the first of `names` that is a feature; without one, None or a UserError."""
        name = next((name for name in names if name in self.features), None)
        if name is None and argument:
            raise UserError(
                f"`{argument}`: found the features {', '.join(self.features)} in {self.name}, "
                f"expected {names[0]!r}"
            )
        return name

    def find_split(self, names):
        return next((name for name in names if name in self._builder.info.splits), None)

    def missing_split(self, base):
        return UserError(
            f"`tfds_name`: found no split for {base} in {self.name}, only "
            f"{', '.join(self._builder.info.splits)}; select one with `tfds_splits`"
        )

    def read(self, split):
        """Yield (place, row) for each example of a split."""
        import tensorflow_datasets as tfds

        try:
            rows = tfds.as_numpy(self._builder.as_dataset(split=split, shuffle_files=False))
        except (ValueError, AssertionError) as error:
            raise UserError(f"`tfds_splits`: {self.name}, {split}: {reason(error)}") from None
        for number, row in enumerate(rows):
            yield f"{self.name}, {split}, example {number}", row
