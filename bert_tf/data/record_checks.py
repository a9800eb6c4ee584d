"""Checks of TFRecord files, before a run and when reading fails."""

import contextlib
import math
import re

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import console
from bert_tf.data import record_files, records
from bert_tf.errors import UserError, abbreviate, reason

# Number of files whose first record is checked before a run starts.
NUM_CHECKED = 20


def check(paths, schema, lengths, is_unmasked=False, sizes=None, num_checked=NUM_CHECKED):
    """Check the first records of files in parallel; UserError for the first invalid file.

    Empty files, such as shards without documents, are skipped unless all are empty.
    `num_checked` evenly distributed files are checked, None for all; the others are checked when
    they are read, see `naming_bad_records`.
    """
    sizes = record_files.sizes(paths) if sizes is None else sizes
    empty = [path for path, size in zip(paths, sizes, strict=True) if size == 0]
    if 0 < len(empty) < len(paths):
        console.info(
            "%d of %d files have no records: %s", len(empty), len(paths), abbreviate(empty)
        )
        paths = [path for path, size in zip(paths, sizes, strict=True) if size]
    if num_checked is not None and len(paths) > num_checked:
        console.info("checking the first records of %d of %d files", num_checked, len(paths))
        paths = [paths[i] for i in np.linspace(0, len(paths) - 1, num_checked).astype(int)]

    def check_file(path):
        check_lengths(path, schema, lengths, is_unmasked)

    record_files.map_files(check_file, paths, "checking")


def check_lengths(path, schema, lengths, is_unmasked=False):
    """Check the first record of a file, to report wrong arguments before the run starts.

    This runs no TensorFlow op, because multi-host strategies must be created before the first one.
    Features outside the schema are ignored, except masks if `is_unmasked`.
    """
    try:
        features = tf.train.Example.FromString(_first_record(path)).features.feature
    except DecodeError:
        raise UserError(f"{path}: expected records that are tf.train.Example messages") from None
    if is_unmasked and "masked_lm_ids" in features:
        raise UserError(
            f"{path}: found records with masked_lm_ids, but `dynamic_masking` requires records "
            "without masks; create them with create_pretraining_data.py `dynamic_masking`"
        )
    missing = [name for name in schema if name not in features]
    if missing:
        names = ", ".join(sorted(features))
        raise UserError(f"{path}: found records with {names}, expected also {', '.join(missing)}")
    for name, feature in schema.items():
        expected_kind = {"int64": "int64_list", "float32": "float_list"}[feature.dtype]
        kind = features[name].WhichOneof("kind")
        if kind != expected_kind:
            raise UserError(f"{path}: {name} is a {kind}, expected a {expected_kind}")
        length = len(getattr(features[name], kind).value)
        expected_length = math.prod(feature.shape(lengths))
        # A document has at most W windows.
        fits = feature.is_windowed and 0 < length < expected_length and length % lengths["S"] == 0
        if length != expected_length and not fits:
            raise UserError(
                f"{path}: {name} has length {length}, expected {expected_length}"
                f"{feature.shape_cause(lengths)}"
            )


@contextlib.contextmanager
def naming_bad_records(paths, check_all=None):
    """Convert TensorFlow's errors about records in `paths` to a UserError.

    These do not name the file, so `check_all`, a function without arguments, is called first,
    which may raise a UserError with the name. Other errors propagate.
    """
    try:
        yield
    except _FILE_ERRORS as error:
        if not (path := _named_path(paths, str(error))):
            raise
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        if not (problem := _describe_bad_record(error)):
            raise
        if check_all:
            check_all()
        raise UserError(f"{abbreviate(list(dict.fromkeys(paths)))}: {problem}") from None


def _named_path(paths, message):
    """Return the longest path that a message names, or None."""

    def is_named(path):
        return re.search(rf"(?<![\w./-]){re.escape(path)}(?!\.*[\w/-])", message)

    return max(filter(is_named, paths), key=len, default=None)


_FILE_ERRORS = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.FailedPreconditionError,
)

# Messages of the assertion in `records.parse` and of TensorFlow's parser.
_PARSER_ERRORS = {
    "range": rf"\[{records.OUT_OF_RANGE}\] \[(\w+)\] \[(-?\d+)\] \[(-?\d+)\] \[(\d+)\]",
    "length": r"Key: (\w+).*values size: (\d+) but output shape: \[(\d*)\]",
    "type": r"Key: (\w+).*Data type: (\w+) but expected type: (\w+)",
    "missing": r"Feature: (\w+) \(data type: \w+\) is required but could not be found",
    "other": r"Key: (\w+), Index: |Could not parse example input",
}


def _describe_bad_record(error):
    """Describe what is wrong with a record; None for unrelated errors."""
    if isinstance(error, tf.errors.DataLossError):
        return f"a record is damaged or truncated ({reason(error)})"
    # The parser quotes the bytes it cannot parse. If they are not UTF-8, a UnicodeDecodeError
    # replaces the OpError.
    is_binary = isinstance(error, UnicodeDecodeError)
    text = bytes(error.object).decode("utf-8", "replace") if is_binary else error.message
    for kind, pattern in _PARSER_ERRORS.items():
        if not (match := re.search(pattern, text, re.IGNORECASE)):
            continue
        name = match[1]
        if kind == "range":
            least, most, limit = map(int, match.groups()[1:])
            cause = records.BOUND_CAUSES.get(records.UPPER_BOUNDS.get(name))
            because = f" because of {cause}" if cause else ""
            worst = most if most >= limit else least
            return f"a record has {worst} in {name}, expected 0 to {limit - 1}{because}"
        if kind == "length":
            expected = match[3] or 1
            feature = records.ALL.get(name)
            because = feature.shape_cause({feature.length: expected}) if feature else ""
            return f"{name} of a record has length {match[2]}, expected {expected}{because}"
        if kind == "type":
            return f"{name} of a record is {match[2]}, expected {match[3]}"
        if kind == "missing":
            return f"a record lacks {name}"
        if name:
            return f"{name} of a record cannot be read ({reason(error)})"
        return "a record is not a tf.train.Example message"
    return None


def _first_record(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            size = reader.size()
            header = reader.read(12)
            length = int.from_bytes(header[:8], "little") if len(header) == 12 else size
            # In other file types the length is arbitrary, so compare before allocating.
            data = reader.read(length) if 12 + length + 4 <= size else None
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if size == 0:
        raise UserError(f"{path}: the file is empty, expected TFRecords")
    if data is None:
        raise UserError(f"{path}: not a TFRecord file, or its first record is truncated")
    return data
