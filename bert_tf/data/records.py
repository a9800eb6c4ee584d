"""The TFRecords of the 2018 release: one definition for writing, checking and reading them.

A schema is a dict from the name of each feature to its `Feature`: the type and the length, which is

* an int: that many values;
* "S", "P", "L", "F", "C" or "W": a length that is chosen for a run and passed as a dict such as
  {"S": 128, "P": 20}. S is the sequence length, P the number of predictions per sequence, L the
  number of labels, F the number of numeric features, C the number of choices and W the number of
  windows of a document;
* a tuple of these, for several axes;
* None: a single value, which is read as a scalar.
"""

import contextlib
import itertools
import math
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import console, files
from bert_tf.data import record_files
from bert_tf.deprecation import deprecated_names
from bert_tf.errors import UserError, abbreviate, reason

# The arguments that set the lengths.
_LENGTH_ARGUMENTS = {"S": "max_seq_length", "P": "max_predictions_per_seq"}


class Feature(NamedTuple):
    """A feature of an example: `dtype` "int64" or "float32", `length` as described above."""

    dtype: str
    length: str | int | tuple | None

    def shape(self, lengths):
        """Return the shape of the values of one example, as a list."""
        axes = self.length if isinstance(self.length, tuple) else (self.length,)
        return [lengths.get(axis, axis) for axis in axes if axis is not None]

    def shape_cause(self, lengths):
        """Return " because `max_seq_length=128`" for the end of a sentence, or ""."""
        for axis, argument in _LENGTH_ARGUMENTS.items():
            if axis in lengths and axis in self.shape({}):
                return f" because `{argument}={lengths[axis]}`"
        return ""


_SCALAR = Feature("int64", None)
_TOKENS = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), Feature("int64", "S"))

PRETRAINING = {
    **_TOKENS,
    "masked_lm_positions": Feature("int64", "P"),
    "masked_lm_ids": Feature("int64", "P"),
    "masked_lm_weights": Feature("float32", "P"),
    "next_sentence_labels": Feature("int64", 1),
}


def pretraining_schema(has_next_sentence=True, has_masks=True):
    """Return `PRETRAINING`, without labels of sentence pairs or without masks if so chosen.

    Records without masks are masked during training (see `dynamic_masking`). Both variants are
    specific to bert_tf.
    """
    return {
        name: feature
        for name, feature in PRETRAINING.items()
        if (has_next_sentence or name != "next_sentence_labels")
        and (has_masks or not name.startswith("masked_lm"))
    }


CLASSIFICATION = {**_TOKENS, "label_ids": _SCALAR, "is_real_example": _SCALAR}

# The following schemas are specific to bert_tf, except SQuAD's. A regression has a score as its
# label, a multi-label classification a 0 or 1 for each label.
REGRESSION = {**_TOKENS, "label_value": Feature("float32", None), "is_real_example": _SCALAR}
MULTI_LABEL = {**_TOKENS, "label_values": Feature("float32", "L"), "is_real_example": _SCALAR}

# A sequence for each choice, and the index of the correct choice.
CHOICE = {
    **dict.fromkeys(_TOKENS, Feature("int64", ("C", "S"))),
    "label_ids": _SCALAR,
    "is_real_example": _SCALAR,
}

# Additions to the schemas above: normalised numeric features, and the logits of a teacher model.
NUMBERS = {"numbers": Feature("float32", "F")}
TEACHER = {"teacher_logits": Feature("float32", "L")}

SQUAD = {"unique_ids": _SCALAR, **_TOKENS}
SQUAD_TRAINING = {
    **SQUAD,
    "start_positions": _SCALAR,
    "end_positions": _SCALAR,
    "is_impossible": _SCALAR,
}

# The tag id of each token's word; and 1 for a token that starts a word whose tag is predicted in
# this sequence, 2 if this word also starts a sentence.
TAGGING = {**_TOKENS, "tag_ids": Feature("int64", "S"), "word_starts": Feature("int64", "S")}

_ALL = PRETRAINING | CLASSIFICATION | REGRESSION | MULTI_LABEL | NUMBERS | TEACHER
_ALL |= SQUAD_TRAINING | TAGGING


def windowed(schema):
    """Return a schema whose sequences are the W windows of a document (specific to bert_tf)."""
    return {**schema, **dict.fromkeys(_TOKENS, Feature("int64", ("W", "S")))}


def serialize(schema, values):
    """Return the bytes of one `tf.train.Example`; equal values give equal bytes.

    `values` is a dict from the names in the schema to arrays, lists or scalars. Other names or
    types, which are programming errors, raise a KeyError or TypeError.
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


# The exclusive upper bound of the values of a feature: a size in `BertConfig`, a length, the number
# of labels or a constant.
_UPPER_BOUNDS = {
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
_BOUND_CAUSES = {
    "vocab_size": "vocab_size in `bert_config_file`",
    "type_vocab_size": "type_vocab_size in `bert_config_file`",
    "S": "`max_seq_length`",
    "labels": "the number of labels",
}


def limits(schema, config, lengths, num_labels=2):
    """Return a dict of the exclusive upper bounds of a schema's values, for `parse` to check.

    `config` is the model's `BertConfig`.
    """
    sizes = {
        "vocab_size": config.vocab_size,
        "type_vocab_size": config.type_vocab_size,
        "S": lengths["S"],
        "labels": num_labels,
    }
    return {name: sizes.get(of, of) for name, of in _UPPER_BOUNDS.items() if name in schema}


def parse(serialized, schema, lengths, limits=None):
    """Parse a batch of examples.

    Args:
      serialized: string tensor (B,) of `tf.train.Example`s.
      schema: a schema, such as `PRETRAINING`.
      lengths: dict with a length for each letter in the schema.
      limits: dict from feature name to the exclusive upper bound of its values, as `limits` returns
        it. A value out of range raises an error that `naming_bad_records` explains; without the
        check, an embedding or one-hot lookup on the device silently gives zeros.

    Returns:
      Dict from name to tensor (B, length) or (B,) of static shape. Integers are int32, since TPUs
      do not support int64.
    """
    spec = {
        name: tf.io.FixedLenFeature(feature.shape(lengths), feature.dtype)
        for name, feature in schema.items()
    }
    parsed = tf.io.parse_example(serialized, spec)
    for name, limit in (limits or {}).items():
        # Before the cast to int32, which would turn 2**32 into 0.
        least, most = tf.reduce_min(parsed[name]), tf.reduce_max(parsed[name])
        tf.debugging.Assert(
            (least >= 0) & (most < limit), [_OUT_OF_RANGE, name, least, most, limit]
        )
    return {
        name: tf.cast(tensor, tf.int32) if tensor.dtype == tf.int64 else tensor
        for name, tensor in parsed.items()
    }


def _length(mask):
    """Return the lengths of the sequences of a mask (..., S)."""
    # The position of the last 1, not the sum: a mask that another program wrote may have gaps.
    return tf.reduce_max(mask * tf.range(1, mask.shape[-1] + 1, dtype=mask.dtype), -1)


def num_tokens(serialized, schema, lengths):
    """Return the number of tokens (B,) of examples, with what padding to their longest adds.

    An example with several sequences counts as many tokens as its longest has, times their number.
    `serialized` is a string tensor (B,); other arguments are those of `parse`.
    """
    mask = parse(serialized, {"input_mask": schema["input_mask"]}, lengths)["input_mask"]
    size = _length(mask)  # (B,), or (B, N) for N sequences
    if size.shape.rank == 1:
        return size
    return tf.reduce_max(size, -1) * tf.math.count_nonzero(size, -1, dtype=size.dtype)


def trim(batch, schema, multiple):
    """Cut off columns that are padding in all examples of a batch, as `parse` returns it.

    The new length is that of the longest sequence rounded up to a multiple of `multiple`, at most
    S; it is not static. Windows of documents are cut off likewise.
    """
    mask = batch["input_mask"]
    longest = tf.reduce_max(_length(mask))
    length = -(-tf.maximum(longest, 1) // multiple) * multiple
    trimmed = {
        name: tensor[..., :length] if schema[name].shape({})[-1:] == ["S"] else tensor
        for name, tensor in batch.items()
    }
    windows = [name for name in batch if schema[name].shape({})[:1] == ["W"]]
    if windows:
        # The windows of a document come first, and each has a token.
        count = tf.reduce_max(tf.reduce_sum(mask[:, :, 0], -1))
        trimmed |= {name: trimmed[name][:, :count] for name in windows}
    return trimmed


@contextlib.contextmanager
def writing(paths, schema):
    """Yield a function that writes examples to the files in turn.

    The files appear complete when the block ends, or not at all if it fails. A UserError is raised
    if one cannot be written.

    >>> with records.writing(["a.tfrecord", "b.tfrecord"], records.PRETRAINING) as write:
    ...     for values in examples:
    ...         write(values)
    """
    with files.replacing(*paths) as temporary, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(tf.io.TFRecordWriter(path)) for path in temporary]
        turns = itertools.cycle(writers)
        yield lambda values: next(turns).write(serialize(schema, values))


# Number of files whose first record is checked before a run starts.
NUM_CHECKED = 20


def check(paths, schema, lengths, is_unmasked=False, sizes=None, num_checked=NUM_CHECKED):
    """Check the first records of files, see `check_lengths`, several at a time.

    Empty files are skipped if there are others: shards that got no document are empty.

    Args:
      paths: TFRecord files.
      schema: the schema of their records.
      lengths: dict with a length for each letter in the schema.
      is_unmasked: whether there must be no masks.
      sizes: the sizes of the files in bytes, None to look them up.
      num_checked: check this many files, evenly distributed; None for all. The others are checked
        when they are read, see `naming_bad_records`.

    Raises:
      UserError: about the first wrong file.
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
    """Check the first record of a file, so that a wrong argument is reported before the run starts.

    Runs no TensorFlow op, since multi-host strategies must be created before the first one.

    Features that the schema lacks are ignored, but if `is_unmasked`, there must be no masks.

    Raises:
      UserError: if the file is empty or not a TFRecord file, or if a feature is missing or has a
        different type or length.
    """
    try:
        features = tf.train.Example.FromString(_first_record(path)).features.feature
    except DecodeError:
        raise UserError(f"{path}: its records are not tf.train.Example messages") from None
    if is_unmasked and "masked_lm_ids" in features:
        raise UserError(
            f"{path}: `dynamic_masking` requires records without masks, but these have "
            "masked_lm_ids; create them with create_pretraining_data.py `dynamic_masking`"
        )
    missing = [name for name in schema if name not in features]
    if missing:
        names = ", ".join(sorted(features))
        raise UserError(f"{path}: its records lack {', '.join(missing)}; they have {names}")
    for name, feature in schema.items():
        expected_kind = {"int64": "int64_list", "float32": "float_list"}[feature.dtype]
        kind = features[name].WhichOneof("kind")
        if kind != expected_kind:
            raise UserError(f"{path}: {name} is a {kind}, expected a {expected_kind}")
        length = len(getattr(features[name], kind).value)
        expected_length = math.prod(feature.shape(lengths))
        if length != expected_length:
            raise UserError(
                f"{path}: {name} has length {length}, expected {expected_length}"
                f"{feature.shape_cause(lengths)}"
            )


@contextlib.contextmanager
def naming_bad_records(paths, check_all=None):
    """Turn TensorFlow's errors about records in `paths` into a UserError; others pass unchanged.

    Covers damaged files, files that cannot be read, and records that do not match the arguments of
    `parse`. TensorFlow's errors about records do not name the file. So `check_all`, a function
    without arguments, is called on such an error: it may raise a UserError that does.

    >>> with records.naming_bad_records(paths, lambda: check(paths, ..., num_checked=None)):
    ...     for batch in dataset:
    ...         train(batch)
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
    """Return the one of `paths` that a message names, None if it names another file.

    The name of a file may be a part of the name of another file, so the longest counts.
    """

    def is_named(path):
        return re.search(rf"(?<![\w./-]){re.escape(path)}(?!\.*[\w/-])", message)

    return max(filter(is_named, paths), key=len, default=None)


_FILE_ERRORS = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.FailedPreconditionError,
)

# The message of the assertion in `parse`, and those of TensorFlow's parser.
_OUT_OF_RANGE = "out of range"
_PARSER_ERRORS = {
    "range": rf"\[{_OUT_OF_RANGE}\] \[(\w+)\] \[(-?\d+)\] \[(-?\d+)\] \[(\d+)\]",
    "length": r"Key: (\w+).*values size: (\d+) but output shape: \[(\d*)\]",
    "type": r"Key: (\w+).*Data type: (\w+) but expected type: (\w+)",
    "missing": r"Feature: (\w+) \(data type: \w+\) is required but could not be found",
    "other": r"Key: (\w+), Index: |Could not parse example input",
}


def _describe_bad_record(error):
    """Return what is wrong with a record, or None if the error is about something else."""
    if isinstance(error, tf.errors.DataLossError):
        return f"a record is damaged or truncated ({reason(error)})"
    # The parser quotes bytes that it cannot parse. If they are not UTF-8, Python raises a
    # UnicodeDecodeError instead of the OpError.
    is_binary = isinstance(error, UnicodeDecodeError)
    text = bytes(error.object).decode("utf-8", "replace") if is_binary else error.message
    for kind, pattern in _PARSER_ERRORS.items():
        if not (match := re.search(pattern, text, re.IGNORECASE)):
            continue
        name = match[1]
        if kind == "range":
            least, most, limit = map(int, match.groups()[1:])
            cause = _BOUND_CAUSES.get(_UPPER_BOUNDS.get(name))
            because = f" because of {cause}" if cause else ""
            worst = most if most >= limit else least
            return f"a record has {worst} in {name}, expected 0 to {limit - 1}{because}"
        if kind == "length":
            expected = match[3] or 1
            feature = _ALL.get(name)
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
    """Return the bytes of the first record: length (8 bytes), checksum (4), data, checksum (4)."""
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            size = reader.size()
            header = reader.read(12)
            length = int.from_bytes(header[:8], "little") if len(header) == 12 else size
            # In a file of another kind the length is arbitrary: compare before allocating.
            data = reader.read(length) if 12 + length + 4 <= size else None
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if size == 0:
        raise UserError(f"{path}: the file is empty, expected TFRecords")
    if data is None:
        raise UserError(f"{path}: not a TFRecord file, or its first record is truncated")
    return data


__getattr__ = deprecated_names(
    __name__, {"pretraining": "pretraining_schema", "reading": "naming_bad_records"}
)
