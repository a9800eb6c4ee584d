"""The TFRecords of the release: one definition for writing, checking and reading.

A schema says for each feature its type and how many values it has: "S", "P", "L", "F" or a number,
a tuple of these for several axes, or None for one value that is read without an axis of its own.
"S", "P", "L", the number of labels, "F", that of numbers beside the text, and "C", that of choices,
are lengths that a run chooses; it passes them as a dict, {"S": 128, "P": 20}.
"""

import contextlib
import itertools
import math
import re
import struct
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import console, files
from bert_tf.errors import UserError, reason

# Lengths that a run chooses, and the flags that say them.
_FLAG_OF = {"S": "max_seq_length", "P": "max_predictions_per_seq"}


class Feature(NamedTuple):
    """One feature of an example: `dtype` "int64" or "float32", `length` as the module says."""

    dtype: str
    length: str | int | tuple | None

    def shape(self, lengths):
        """The shape of one example's values, by the lengths that a run chooses."""
        axes = self.length if isinstance(self.length, tuple) else (self.length,)
        return [lengths.get(axis, axis) for axis in axes if axis is not None]

    def because(self, lengths):
        """Of which flag the shape is, as the end of a sentence; "" if of none."""
        axes = self.length if isinstance(self.length, tuple) else (self.length,)
        flags = [f"--{_FLAG_OF[axis]}={lengths[axis]}" for axis in axes
                 if axis in _FLAG_OF and axis in lengths]  # fmt: skip
        return f" because {' and '.join(flags)}" if flags else ""


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


def pretraining(has_pairs=True, is_masked=True):
    """`PRETRAINING`, ours without what follows a, or without masks: those are made in training."""
    return {
        name: feature
        for name, feature in PRETRAINING.items()
        if (has_pairs or name != "next_sentence_labels")
        and (is_masked or not name.startswith("masked_lm"))
    }


CLASSIFICATION = {
    **_TOKENS,
    "label_ids": Feature("int64", None),
    "is_real_example": Feature("int64", None),
}

# Ours: the release has one label of several, as a number. Here it is a score, or a 0 or 1 for each
# label.
REGRESSION = {
    **_TOKENS,
    "label_value": Feature("float32", None),
    "is_real_example": Feature("int64", None),
}
MULTI_LABEL = {
    **_TOKENS,
    "label_values": Feature("float32", "L"),
    "is_real_example": Feature("int64", None),
}

# Ours: the sequence of each choice, and which of them is the right one.
CHOICE = {
    **{name: Feature("int64", ("C", "S")) for name in _TOKENS},
    "label_ids": Feature("int64", None),
    "is_real_example": Feature("int64", None),
}

# Ours, beside each of these: numbers that go with the text, normalised; and a teacher's logits.
NUMBERS = {"numbers": Feature("float32", "F")}
TEACHER = {"teacher_logits": Feature("float32", "L")}

# What prediction reads, and what training adds.
SQUAD = {"unique_ids": Feature("int64", None), **_TOKENS}
SQUAD_TRAINING = {
    **SQUAD,
    "start_positions": Feature("int64", None),
    "end_positions": Feature("int64", None),
    "is_impossible": Feature("int64", None),
}

# Ours: each token with the id of its word's tag, and whether a word starts there that is tagged in
# this sequence: 1, or 2 if it begins a sentence.
TAGGING = {
    **_TOKENS,
    "tag_ids": Feature("int64", "S"),
    "word_starts": Feature("int64", "S"),
}

_ALL = {
    **PRETRAINING,
    **CLASSIFICATION,
    **REGRESSION,
    **MULTI_LABEL,
    **NUMBERS,
    **TEACHER,
    **SQUAD_TRAINING,
    **TAGGING,
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
        name: tf.io.FixedLenFeature(feature.shape(lengths), feature.dtype)
        for name, feature in schema.items()
    }


# What the values of a feature must be below: a size of `BertConfig`, a length, the number of
# labels, or this number.
_LIMIT_OF = {
    "input_ids": "vocab_size",
    "input_mask": 2,
    "segment_ids": "type_vocab_size",
    "masked_lm_positions": "S",
    "masked_lm_ids": "vocab_size",
    "next_sentence_labels": 2,
    "label_ids": "labels",
    "is_real_example": 2,
    "start_positions": "S",
    "end_positions": "S",
    "is_impossible": 2,
    "tag_ids": "labels",
    "word_starts": 3,
}
_SOURCE_OF = {
    "vocab_size": "vocab_size in `bert_config_file`",
    "type_vocab_size": "type_vocab_size in `bert_config_file`",
    "S": "`max_seq_length`",
    "labels": "the number of labels",
}


def limits(schema, config, lengths, num_labels=2):
    """What a model can look up, for `parse` to check.

    Args:
      schema: e.g. `PRETRAINING`.
      config: the model's `BertConfig`.
      lengths: as for `parse`.
      num_labels: of a classification.

    Returns:
      Dict from the names of features to the number that their values must be below.
    """
    sizes = {
        "vocab_size": config.vocab_size,
        "type_vocab_size": config.type_vocab_size,
        "S": lengths["S"],
        "labels": num_labels,
    }
    return {name: sizes.get(of, of) for name, of in _LIMIT_OF.items() if name in schema}


def parse(serialized, schema, lengths, limits=None):
    """Reads a batch of examples.

    Args:
      serialized: string tensor (B,) of `tf.train.Example`s.
      schema: e.g. `PRETRAINING`.
      lengths: dict with "S", and "P" where the schema has it.
      limits: dict from names of features to what each of their values must be below, and not
        negative; `reading` says what is wrong with a record that breaks one. The devices would not
        say it: there an embedding or a one-hot of a wrong number is zeros.

    Returns:
      Dict from name to tensor (B, length) or (B,), with fixed lengths; whole numbers are int32,
      because TPUs have no int64.
    """
    parsed = tf.io.parse_example(serialized, parsing_spec(schema, lengths))
    for name, limit in (limits or {}).items():
        # Before the cast, which would make 2**32 a 0.
        least, most = tf.reduce_min(parsed[name]), tf.reduce_max(parsed[name])
        tf.debugging.Assert((least >= 0) & (most < limit), [_BROKEN, name, least, most, limit])
    return {
        name: tf.cast(tensor, tf.int32) if tensor.dtype == tf.int64 else tensor
        for name, tensor in parsed.items()
    }


def trim(batch, schema, multiple):
    """Cuts off what is padding in all examples of a batch.

    Args:
      batch: dict as `parse` gives it.
      schema: the same as for `parse`.
      multiple: the length S is rounded up to a multiple of this, as far as there is padding.

    Returns:
      The dict with the features of length S that much shorter; S is then not static.
    """
    mask = batch["input_mask"]
    # Wherever the last 1 of a row stands: a mask of another's making may have gaps.
    longest = tf.reduce_max(mask * tf.range(1, mask.shape[-1] + 1))
    length = -(-tf.maximum(longest, 1) // multiple) * multiple
    return {
        name: tensor[..., :length] if schema[name].shape({})[-1:] == ["S"] else tensor
        for name, tensor in batch.items()
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


def check(paths, schema, lengths, is_unmasked=False):
    """Does `check_lengths` for each of the files, but for empty ones beside others.

    More shards than there are documents leave such files.
    """
    empty = [path for path in paths if files.size_and_time(path)[0] == 0]
    if 0 < len(empty) < len(paths):
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        console.info(
            "%d of %d files have no records: %s%s",
            len(empty), len(paths), ", ".join(empty[:3]), more,
        )  # fmt: skip
        paths = [path for path in paths if path not in empty]
    for path in paths:
        check_lengths(path, schema, lengths, is_unmasked)


def check_lengths(path, schema, lengths, is_unmasked=False):
    """Looks at a file's first record, so that a wrong flag is named before the run begins.

    It runs no TensorFlow op: strategies over many hosts must be made before the first one.

    Args:
      path: a TFRecord file.
      schema: what it should hold; further features do not matter.
      lengths: as for `parse`.
      is_unmasked: whether nothing may be masked in it yet.

    Raises:
      UserError: if the file is no TFRecord or empty, or a feature is missing, of another type or
        of another length than asked for.
    """
    try:
        features = tf.train.Example.FromString(_first_record(path)).features.feature
    except DecodeError:
        raise UserError(f"{path}: its records are not tf.train.Example messages") from None
    if is_unmasked and "masked_lm_ids" in features:
        raise UserError(
            f"{path}: `dynamic_masking` wants records without masks, as create_pretraining_data.py "
            "`dynamic_masking` makes them; these have masked_lm_ids"
        )
    missing = [name for name in schema if name not in features]
    if missing:
        found = ", ".join(sorted(features))
        raise UserError(f"{path}: its records lack {', '.join(missing)}; they have {found}")
    for name, feature in schema.items():
        dtype = feature.dtype
        kind = {"int64": "int64_list", "float32": "float_list"}[dtype]
        found = features[name].WhichOneof("kind")
        if found != kind:
            raise UserError(f"{path}: {name} is a {found}, a {kind} was expected")
        count = len(getattr(features[name], kind).value)
        wanted = math.prod(feature.shape(lengths))
        if count != wanted:
            raise UserError(
                f"{path}: {name} has length {count}, {wanted} was expected"
                f"{feature.because(lengths)}"
            )


@contextlib.contextmanager
def reading(paths):
    """Turns what is wrong with the records of `paths`, as TensorFlow meets it, into a UserError.

    That is damage, and records that are not what `parse` was told. Other errors stay what they are.

    >>> with records.reading(paths):
    ...     for batch in dataset:
    ...         train(batch)
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        if isinstance(error, tf.errors.DataLossError):
            found = f"a record is damaged or cut off ({reason(error)})"
        else:
            found = _wrong_record(error)
        if not found:
            raise
        paths = list(dict.fromkeys(paths))
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        raise UserError(f"{', '.join(paths[:3])}{more}: {found}") from None


# The assertion of `parse`, and what TensorFlow's parser says.
_BROKEN = "out of range"
_SAID = {
    "range": rf"\[{_BROKEN}\] \[(\w+)\] \[(-?\d+)\] \[(-?\d+)\] \[(\d+)\]",
    "length": r"Key: (\w+).*values size: (\d+) but output shape: \[(\d*)\]",
    "type": r"Key: (\w+).*Data type: (\w+) but expected type: (\w+)",
    "lack": r"Feature: (\w+) \(data type: \w+\) is required but could not be found",
    "other": r"Key: (\w+), Index: |Could not parse example input",
}


def _wrong_record(error):
    """Says what is wrong with a record, or returns None if the error is about something else."""
    # The parser quotes what is no message; where that is not UTF-8, the text is not an OpError.
    broken = isinstance(error, UnicodeDecodeError)
    text = bytes(error.object).decode("utf-8", "replace") if broken else error.message
    for kind, pattern in _SAID.items():
        if not (match := re.search(pattern, text, re.IGNORECASE)):
            continue
        name = match[1]
        if kind == "range":
            least, most, limit = map(int, match.groups()[1:])
            source = _SOURCE_OF.get(_LIMIT_OF.get(name))
            because = f" because of {source}" if source else ""
            worst = most if most >= limit else least
            return f"a record has {worst} in {name}, 0 to {limit - 1} was expected{because}"
        if kind == "length":
            wanted = match[3] or 1
            feature = _ALL.get(name)
            because = feature.because({feature.length: wanted}) if feature else ""
            return f"{name} of a record has length {match[2]}, {wanted} was expected{because}"
        if kind == "type":
            return f"{name} of a record is {match[2]}, {match[3]} was expected"
        if kind == "lack":
            return f"a record lacks {name}"
        if name:
            return f"{name} of a record cannot be read ({reason(error)})"
        return "a record is not a tf.train.Example message"
    return None


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
