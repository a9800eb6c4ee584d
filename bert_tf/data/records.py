"""The TFRecords of the release: one definition for writing, checking and reading.

A schema says for each feature its type and how many values it has: "S", "P" or a number, or None
for one value that is read without an axis of its own. "S" and "P" are lengths that a run chooses;
it passes them as a dict, {"S": 128, "P": 20}.
"""

import contextlib
import itertools
import struct
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import files
from bert_tf.errors import UserError, reason

# Lengths that a run chooses, and the flags that say them.
_FLAG_OF = {"S": "max_seq_length", "P": "max_predictions_per_seq"}


class Feature(NamedTuple):
    """One feature of an example: `dtype` "int64" or "float32", `length` as the module says."""

    dtype: str
    length: str | int | None


_TOKENS = {
    "input_ids": Feature("int64", "S"),
    "input_mask": Feature("int64", "S"),
    "segment_ids": Feature("int64", "S"),
}

PRETRAINING = {
    **_TOKENS,
    "masked_lm_positions": Feature("int64", "P"),
    "masked_lm_ids": Feature("int64", "P"),
    "masked_lm_weights": Feature("float32", "P"),
    "next_sentence_labels": Feature("int64", 1),
}

CLASSIFICATION = {
    **_TOKENS,
    "label_ids": Feature("int64", None),
    "is_real_example": Feature("int64", None),
}

# What prediction reads, and what training adds.
SQUAD = {"unique_ids": Feature("int64", None), **_TOKENS}
SQUAD_TRAINING = {
    **SQUAD,
    "start_positions": Feature("int64", None),
    "end_positions": Feature("int64", None),
    "is_impossible": Feature("int64", None),
}


def serialize(schema, values):
    """Turns one example into the bytes of a `tf.train.Example`; the same values, the same bytes.

    Args:
      schema: e.g. `PRETRAINING`.
      values: dict with the schema's names; arrays or lists, or one number for a single value.

    Returns:
      bytes.

    Raises:
      KeyError, TypeError: if names or types are not the schema's, the calling code's mistake.
    """
    if values.keys() != schema.keys():
        raise KeyError(f"features {sorted(values)}, the schema has {sorted(schema)}")
    example = tf.train.Example()
    features = example.features.feature
    for name, (dtype, _) in schema.items():
        feature = features[name]
        target = feature.int64_list if dtype == "int64" else feature.float_list
        array = np.asarray(values[name]).astype(dtype, casting="same_kind")
        target.value.extend(array.ravel().tolist())
    return example.SerializeToString(deterministic=True)


def parsing_spec(schema, lengths):
    """The schema as `tf.io.parse_example` takes it: dict from name to `FixedLenFeature`."""
    return {
        name: tf.io.FixedLenFeature([] if length is None else [lengths.get(length, length)], dtype)
        for name, (dtype, length) in schema.items()
    }


def parse(serialized, schema, lengths):
    """Reads a batch of examples.

    Args:
      serialized: string tensor (B,) of `tf.train.Example`s.
      schema: e.g. `PRETRAINING`.
      lengths: dict with "S", and "P" where the schema has it.

    Returns:
      Dict from name to tensor (B, length) or (B,), with fixed lengths; whole numbers are int32,
      because TPUs have no int64.
    """
    parsed = tf.io.parse_example(serialized, parsing_spec(schema, lengths))
    return {
        name: tf.cast(tensor, tf.int32) if tensor.dtype == tf.int64 else tensor
        for name, tensor in parsed.items()
    }


@contextlib.contextmanager
def writing(paths, schema):
    """Writes examples to the files in turn; all of the files appear at the end, or none does.

    >>> with records.writing(["a.tfrecord", "b.tfrecord"], records.PRETRAINING) as write:
    ...     for values in examples:
    ...         write(values)

    Raises:
      UserError: if a file cannot be written.
    """
    with files.replacing(*paths) as temporary, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(tf.io.TFRecordWriter(path)) for path in temporary]
        turns = itertools.cycle(writers)
        yield lambda values: next(turns).write(serialize(schema, values))


def check(paths, schema, lengths):
    """Does `check_lengths` for each of the files."""
    for path in paths:
        check_lengths(path, schema, lengths)


def check_lengths(path, schema, lengths):
    """Looks at a file's first record, so that a wrong flag is named before the run begins.

    It runs no TensorFlow op: strategies over many hosts must be made before the first one.

    Args:
      path: a TFRecord file.
      schema: what it should hold; further features do not matter.
      lengths: as for `parse`.

    Raises:
      UserError: if the file is no TFRecord or empty, or a feature is missing, of another type or
        of another length than asked for.
    """
    try:
        features = tf.train.Example.FromString(_first_record(path)).features.feature
    except DecodeError:
        raise UserError(f"{path}: its records are not tf.train.Example messages") from None
    missing = [name for name in schema if name not in features]
    if missing:
        found = ", ".join(sorted(features))
        raise UserError(f"{path}: its records lack {', '.join(missing)}; they have {found}")
    for name, (dtype, length) in schema.items():
        kind = {"int64": "int64_list", "float32": "float_list"}[dtype]
        found = features[name].WhichOneof("kind")
        if found != kind:
            raise UserError(f"{path}: {name} is a {found}, a {kind} was expected")
        count = len(getattr(features[name], kind).value)
        wanted = 1 if length is None else lengths.get(length, length)
        if count != wanted:
            flag = f" because --{_FLAG_OF[length]}={wanted}" if length in _FLAG_OF else ""
            raise UserError(f"{path}: {name} has length {count}, {wanted} was expected{flag}")


@contextlib.contextmanager
def reading(paths):
    """Turns damage that TensorFlow meets while it reads `paths` into a UserError.

    >>> with records.reading(paths):
    ...     for batch in dataset:
    ...         train(batch)
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        paths = list(paths)
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        raise UserError(
            f"{', '.join(paths[:3])}{more}: a record is damaged or cut off ({reason(error)})"
        ) from None


def _first_record(path):
    """The bytes of the first record: length (8 bytes), checksum (4), data, checksum (4)."""
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            size = reader.size()
            header = reader.read(12)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else size
            # A length out of thin air must not be allocated before it is compared.
            data = reader.read(length) if 12 + length + 4 <= size else None
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if size == 0:
        raise UserError(f"{path}: the file is empty, TFRecords were expected")
    if data is None:
        raise UserError(f"{path}: not a TFRecord file, or its first record is cut off")
    return data
