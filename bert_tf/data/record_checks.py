"""Checks of TFRecord files, before a run and when reading fails."""

import contextlib
import math
import re

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import console
from bert_tf.data import records, tfrecord
from bert_tf.errors import UserError, abbreviate, reason
from bert_tf.io import files

# Number of files whose first record is checked before a run starts.
NUM_CHECKED = 20


def check(paths, schema, lengths, is_unmasked=False, sizes=None, num_checked=NUM_CHECKED):
    """Check the first records of files in parallel; UserError for the first invalid file.

    Empty files, such as shards without documents, are skipped unless all are empty.
    `num_checked` evenly distributed files are checked, None for all; the others are checked when
    they are read, see `naming_bad_records`.
    """
    sizes = tfrecord.sizes(paths) if sizes is None else sizes
    empty = [path for path, size in zip(paths, sizes, strict=True) if size == 0]
    if 0 < len(empty) < len(paths):
        console.info(
            "%d of %d files have no records: %s", len(empty), len(paths), abbreviate(empty)
        )
        paths = [path for path, size in zip(paths, sizes, strict=True) if size]
    if num_checked is not None and len(paths) > num_checked:
        console.info("checking the first records of %d of %d files", num_checked, len(paths))
        paths = [paths[i] for i in np.linspace(0, len(paths) - 1, num_checked).astype(int)]
    tfrecord.map_files(
        lambda path: check_lengths(path, schema, lengths, is_unmasked), paths, "checking"
    )


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
            argument = "max_predictions_per_seq" if feature.length == "P" else "max_seq_length"
            raise UserError(
                f"{path}: {name} has length {length}, expected {expected_length}; see `{argument}`"
            )


# In the messages of TensorFlow's parser and of the assertion in `records.parse`.
_BAD_RECORD = re.compile(
    rf"Key: |Feature: .*is required|Could not parse example|{records.OUT_OF_RANGE}", re.IGNORECASE
)


@contextlib.contextmanager
def naming_bad_records(paths, check_all=None):
    """Convert TensorFlow's errors about records in `paths` to a UserError.

    These do not name the file, so `check_all`, a function without arguments, is called first,
    which may raise a UserError with the name. Other errors propagate.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        # The parser quotes the bytes it cannot parse. If they are not UTF-8, a UnicodeDecodeError
        # replaces the OpError.
        is_binary = isinstance(error, UnicodeDecodeError)
        text = bytes(error.object).decode("utf-8", "replace") if is_binary else error.message
        is_bad = is_binary or isinstance(error, tf.errors.InvalidArgumentError)
        is_bad = (is_bad and _BAD_RECORD.search(text)) or isinstance(error, tf.errors.DataLossError)
        is_file = any(path in text for path in paths)
        if not (is_file or is_bad):
            raise
        if check_all:
            check_all()
        names = abbreviate(list(dict.fromkeys(paths)))
        problem = "not a tf.train.Example message" if is_binary else reason(error)
        raise UserError(f"{names}: a record cannot be read ({problem})") from None


def _first_record(path):
    with files.naming_errors(f"{path}: cannot be read"), files.open_file(path, "rb") as reader:
        size = files.size_and_time(path)[0]
        header = reader.read(12)
        length = int.from_bytes(header[:8], "little") if len(header) == 12 else size
        # In other file types the length is arbitrary, so compare before allocating.
        data = reader.read(length) if 12 + length + 4 <= size else None
    if size == 0:
        raise UserError(f"{path}: the file is empty, expected TFRecords")
    if data is None:
        raise UserError(f"{path}: not a TFRecord file, or its first record is truncated")
    return data
