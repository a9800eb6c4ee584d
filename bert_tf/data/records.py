"""Schemas of TFRecords, and functions that write, parse and check the records.

A schema is a dict from feature name to `Feature`, a type and a length. The length is

* an int, the number of values;
* "S", "P", "L", "F", "C" or "W", a length that depends on the run and is passed as a dict such as
  {"S": 128, "P": 20}. S is the sequence length, P the number of predictions per sequence, L of
  labels, F of numeric features, C of choices or texts, and W of windows of a document;
* a tuple of these, for several axes;
* None for a scalar.

A record has only the windows of its own document; `parse` pads them with zeros to W.
"""

import contextlib
import itertools
import math
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf import console
from bert_tf.data import tfrecord
from bert_tf.errors import UserError, abbreviate, reason
from bert_tf.io import files


class Feature(NamedTuple):
    """A feature of an example: `dtype` "int64" or "float32", `length` as described above."""

    dtype: str
    length: str | int | tuple | None

    def shape(self, lengths):
        axes = self.length if isinstance(self.length, tuple) else (self.length,)
        return [lengths.get(axis, axis) for axis in axes if axis is not None]

    @property
    def is_windowed(self):
        """Whether an example has values for up to W windows."""
        return self.shape({})[:1] == ["W"]

    def parser(self, lengths):
        shape = self.shape(lengths)
        if self.is_windowed:
            return tf.io.FixedLenSequenceFeature(shape[1:], self.dtype, allow_missing=True)
        return tf.io.FixedLenFeature(shape, self.dtype)


_SCALAR = Feature("int64", None)
_TOKEN = Feature("int64", "S")
_TOKENS = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), _TOKEN)

PRETRAINING = {
    **_TOKENS,
    "masked_lm_positions": Feature("int64", "P"),
    "masked_lm_ids": Feature("int64", "P"),
    "masked_lm_weights": Feature("float32", "P"),
    "next_sentence_labels": Feature("int64", 1),
}


def pretraining_schema(has_next_sentence=True, has_masks=True):
    """Return `PRETRAINING`, optionally without next-sentence labels or masks (bert_tf)."""
    kept = {"next_sentence_labels": has_next_sentence}
    kept |= {name: has_masks for name in PRETRAINING if name.startswith("masked_lm")}
    return {name: feature for name, feature in PRETRAINING.items() if kept.get(name, True)}


CLASSIFICATION = {**_TOKENS, "label_ids": _SCALAR, "is_real_example": _SCALAR}

# The following schemas are specific to bert_tf, except SQuAD's. Regression labels are scores;
# multi-label classification has a 0 or 1 for each label.
REGRESSION = {**_TOKENS, "label_value": Feature("float32", None), "is_real_example": _SCALAR}
MULTI_LABEL = {**_TOKENS, "label_values": Feature("float32", "L"), "is_real_example": _SCALAR}

# A sequence for each choice, and the index of the correct choice.
_SEQUENCES = dict.fromkeys(_TOKENS, Feature("int64", ("C", "S")))
CHOICE = {**_SEQUENCES, "label_ids": _SCALAR, "is_real_example": _SCALAR}

# A sequence for each text, an id that equal texts of a file share, and the similarity of the first
# two texts.
SENTENCES = {
    **_SEQUENCES,
    "text_ids": Feature("int64", "C"),
    "label_value": Feature("float32", None),
    "is_real_example": _SCALAR,
}

# Normalized numeric features, an addition to the schemas above.
NUMBERS = {"numbers": Feature("float32", "F")}

# The factor of an example's loss.
WEIGHTS = {"sample_weight": Feature("float32", None)}

SQUAD = {"unique_ids": _SCALAR, **_TOKENS}
_ANSWER = dict.fromkeys(("start_positions", "end_positions", "is_impossible"), _SCALAR)
SQUAD_TRAINING = {**SQUAD, **_ANSWER}

# The tag id of each token's word. `word_starts` is 1 for the first token of a word whose tag is
# predicted in this sequence, and 2 if the word also starts a sentence.
TOKEN_CLASSIFICATION = {**_TOKENS, "tag_ids": _TOKEN, "word_starts": _TOKEN}


def windowed(schema):
    """Return the schema for documents of W windows."""
    return {**schema, **dict.fromkeys(_TOKENS, Feature("int64", ("W", "S")))}


def serialize(schema, examples):
    """Serialize dicts of arrays, lists or scalars; equal values give equal bytes."""
    groups = [examples]
    if windowed_name := next((name for name in schema if schema[name].is_windowed), None):
        groups = itertools.groupby(examples, lambda values: len(values[windowed_name]))
        groups = [list(group) for _, group in groups]
    serialized = []
    for group in groups:
        columns = {}
        for name, (dtype, _) in schema.items():
            rows = np.array([values[name] for values in group])
            columns[name] = rows.astype(dtype, casting="same_kind").reshape(len(rows), -1)
        serialized += tfrecord.examples(columns)
    return serialized


# The exclusive upper bound of the values of a feature: a size in `BertConfig`, a length, the number
# of labels or a constant.
UPPER_BOUNDS = {
    **dict.fromkeys(("input_ids", "masked_lm_ids"), "vocab_size"),
    **dict.fromkeys(("masked_lm_positions", "start_positions", "end_positions"), "S"),
    **dict.fromkeys(("input_mask", "next_sentence_labels", "is_real_example", "is_impossible"), 2),
    **dict.fromkeys(("label_ids", "tag_ids"), "labels"),
    "segment_ids": "type_vocab_size",
    "word_starts": 3,
}
BOUND_CAUSES = {
    "vocab_size": "vocab_size in `bert_config_file`",
    "type_vocab_size": "type_vocab_size in `bert_config_file`",
    "S": "`max_seq_length`",
    "labels": "the number of labels",
}


# Part of the message of the assertion in `parse`.
OUT_OF_RANGE = "out of range"


def limits(schema, config, lengths, num_labels=2):
    """Return the exclusive upper bounds of a schema's values for a `BertConfig`."""
    sizes = {**vars(config), **lengths, "labels": num_labels}
    return {name: sizes.get(of, of) for name, of in UPPER_BOUNDS.items() if name in schema}


def parse(serialized, schema, lengths, limits=None):
    """Parse a batch of examples, string (B,); return a dict of tensors (B, length) or (B,).

    `limits` are exclusive upper bounds; a value out of range raises an error that
    `naming_bad_records` explains. Without the check, an embedding or one-hot lookup
    on the device silently gives zeros. Integers are int32, because TPUs do not support int64.
    """
    spec = {name: feature.parser(lengths) for name, feature in schema.items()}
    parsed = tf.io.parse_example(serialized, spec)
    for name, feature in schema.items():
        if feature.is_windowed:
            num_missing = lengths["W"] - tf.shape(parsed[name])[1]
            padded = tf.pad(parsed[name], [[0, 0], [0, num_missing], [0, 0]])
            parsed[name] = tf.ensure_shape(padded, [None, *feature.shape(lengths)])
    for name, limit in (limits or {}).items():
        # Before the cast to int32, which turns 2**32 into 0.
        least, most = tf.reduce_min(parsed[name]), tf.reduce_max(parsed[name])
        cause = BOUND_CAUSES.get(UPPER_BOUNDS.get(name))
        expected = f"expected 0 to {limit - 1}" + (f" because of {cause}" if cause else "")
        message = f"{name} is {OUT_OF_RANGE}, {expected}; found"
        tf.debugging.Assert((least >= 0) & (most < limit), [message, least, most])
    integers = {name: tf.cast(x, tf.int32) for name, x in parsed.items() if x.dtype == tf.int64}
    return {**parsed, **integers}


def _length(mask):
    """Return the sequence lengths in a mask (..., S)."""
    # The position of the last 1 instead of the sum, because other programs' masks may have gaps.
    return tf.reduce_max(mask * tf.range(1, mask.shape[-1] + 1, dtype=mask.dtype), -1)


def num_tokens(serialized, schema, lengths):
    """Return the number of tokens (B,) of each example; with several sequences, after padding."""
    mask = parse(serialized, {"input_mask": schema["input_mask"]}, lengths)["input_mask"]
    size = _length(mask)  # (B,), or (B, N) for N sequences
    if size.shape.rank == 1:
        return size
    return tf.reduce_max(size, -1) * tf.math.count_nonzero(size, -1, dtype=size.dtype)


def trim(batch, schema, multiple):
    """Cut off columns that are padding in all examples of a batch from `parse`.

    The longest sequence is rounded up to a multiple of `multiple`, and the number of windows of
    documents to the same fraction of W. If `multiple` is at least S / 4, windows keep the length S,
    so that there are at most four shapes.
    """
    mask = batch["input_mask"]
    windows = [name for name in batch if schema[name].is_windowed]
    longest = tf.reduce_max(_length(mask))
    length = (tf.maximum(longest, 1) + multiple - 1) // multiple * multiple
    if windows and 4 * multiple >= mask.shape[-1]:
        length = mask.shape[-1]
    trimmed = {
        name: tensor[..., :length] if schema[name].shape({})[-1:] == ["S"] else tensor
        for name, tensor in batch.items()
    }
    if windows:
        # A document's windows come first, and each has at least one token.
        count = tf.reduce_max(tf.reduce_sum(mask[:, :, 0], -1))
        step = math.ceil(mask.shape[1] * multiple / mask.shape[2])
        count = (count + step - 1) // step * step
        trimmed |= {name: trimmed[name][:, :count] for name in windows}
    return trimmed


def check(paths, schema, lengths, is_unmasked=False, sizes=None):
    """Check the first records of files in parallel; raise UserError if a file is invalid.

    Empty files, such as shards without documents, are skipped unless all are empty.
    """
    sizes = tfrecord.sizes(paths) if sizes is None else sizes
    empty = [path for path, size in zip(paths, sizes, strict=True) if size == 0]
    if 0 < len(empty) < len(paths):
        message = "%d of %d files have no records: %s"
        console.info(message, len(empty), len(paths), abbreviate(empty))
        paths = [path for path, size in zip(paths, sizes, strict=True) if size]
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
    if missing := [name for name in schema if name not in features]:
        names = ", ".join(sorted(features))
        raise UserError(f"{path}: found records with {names}, expected also {', '.join(missing)}")
    for name, feature in schema.items():
        expected_kind = {"int64": "int64_list", "float32": "float_list"}[feature.dtype]
        kind = features[name].WhichOneof("kind")
        if kind != expected_kind:
            raise UserError(f"{path}: {name} is a {kind}, expected a {expected_kind}")
        count = len(getattr(features[name], kind).value)
        size = math.prod(feature.shape(lengths))
        # A document has at most W windows.
        fits = feature.is_windowed and 0 < count < size and count % lengths["S"] == 0
        if count != size and not fits:
            argument = "max_predictions_per_seq" if feature.length == "P" else "max_seq_length"
            raise UserError(f"{path}: {name} has length {count}, expected {size}; see `{argument}`")


# In the messages of TensorFlow's parser and of the assertion in `records.parse`.
_BAD_RECORD = re.compile(
    rf"Key: |Feature: .*is required|Could not parse example|{OUT_OF_RANGE}", re.IGNORECASE
)


@contextlib.contextmanager
def naming_bad_records(paths):
    """Convert TensorFlow's errors about records in `paths` to a UserError; others propagate."""
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        # The parser quotes the bytes it cannot parse. If they are not UTF-8, a UnicodeDecodeError
        # replaces the OpError.
        is_binary = isinstance(error, UnicodeDecodeError)
        text = bytes(error.object).decode("utf-8", "replace") if is_binary else error.message
        is_bad = is_binary or isinstance(error, tf.errors.InvalidArgumentError)
        is_bad = (is_bad and _BAD_RECORD.search(text)) or isinstance(error, tf.errors.DataLossError)
        if not (any(path in text for path in paths) or is_bad):
            raise
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
