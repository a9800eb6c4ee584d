"""Validation and conversion of the arguments that users pass to pipelines."""

import functools
import itertools
from collections.abc import Mapping, Set

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError, check_unicode, counted


def with_keras_names(**names):
    """Return a decorator that accepts Keras' argument names, for example `x="texts"`."""

    def decorate(method):
        @functools.wraps(method)
        def call(*arguments, **options):
            renamed = {names[x]: options.pop(x) for x in names.keys() & options.keys()}
            return method(*arguments, **renamed, **options)

        return call

    return decorate


def as_dataset(values):
    """Convert a `keras.utils.PyDataset` to a `tf.data.Dataset`; return other values unchanged."""
    if not isinstance(values, keras.utils.PyDataset):
        return values

    def read(x):
        return tuple(map(read, x)) if isinstance(x, tuple) else tf.convert_to_tensor(x)

    def batches():
        for i in range(values.num_batches):
            yield read(values[i])
        values.on_epoch_end()

    def any_size(x):
        return tf.TensorSpec((None, *x.shape[1:]), x.dtype)

    spec = tf.nest.map_structure(any_size, read(values[0]))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    return dataset.apply(tf.data.experimental.assert_cardinality(values.num_batches))


def read_dataset(values):
    """Return the texts or pairs in a dataset of batches as a list, and other values unchanged."""
    values = as_dataset(values)
    if not isinstance(values, tf.data.Dataset):
        return values
    if isinstance(values.element_spec, tuple):
        values = values.map(lambda texts, *_: texts)
    batches = []
    for texts in values.as_numpy_iterator():
        columns = texts if isinstance(texts, tuple) else (texts,)
        columns = [np.atleast_1d(x).tolist() for x in columns]
        batches.append(list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0])
    return list(itertools.chain.from_iterable(batches))


def check_list(values, argument, expected):
    """Convert a list, array, series or DataFrame to a list; raise UserError for anything else."""
    if isinstance(values, (str, bytes)):
        raise UserError(f"`{argument}`: found a single str, expected {expected}")
    if isinstance(values, (Mapping, Set)):  # `list` would return the keys
        raise UserError(f"`{argument}`: found a {type(values).__name__}, expected {expected}")
    if isinstance(values, tf.Tensor):
        values = values.numpy()
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # of pandas or Polars
        values = values.to_numpy()
        values = values[:, 0] if values.shape[1] == 1 else values
    try:
        return list(values)
    except TypeError:
        raise UserError(f"`{argument}`: found {values!r:.50}, expected {expected}") from None


def check_texts(texts, argument):
    """Convert texts to a list of str; raise UserError for anything else."""
    texts = check_list(texts, argument, "a list of texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"`{argument}`: item {i} is {text!r:.50}, expected a text")
        check_unicode(text, f"`{argument}`: item {i}")
    return texts


def check_pairs(texts, argument):
    """Convert texts, pairs, or two lists as in keras-hub, to pairs; "" for no second text."""
    expected = "a list of texts, or of pairs (text_a, text_b)"
    if isinstance(texts, tuple) and len(texts) == 2 and all(map(_is_column, texts)):
        if all(isinstance(x, tuple) and len(x) == 2 for x in texts):
            raise UserError(
                f"`{argument}`: found a tuple of two tuples of two texts, which is ambiguous; "
                "expected a list of pairs or a tuple of two lists"
            )
        first, second = (check_list(x, argument, expected) for x in texts)
        check_same_length(f"{argument}[0]", first, f"{argument}[1]", second)
        texts = list(zip(first, second, strict=True))
    pairs = []
    for i, text in enumerate(check_list(texts, argument, expected)):
        pair = (text, "") if isinstance(text, (str, bytes)) else text
        if hasattr(text, "text_a"):
            pair = (text.text_a, text.text_b or "")
        is_pair = isinstance(pair, (tuple, list, np.ndarray)) and len(pair) == 2
        if not is_pair or not all(isinstance(x, (str, bytes)) for x in pair):
            raise UserError(f"`{argument}`: item {i} is {text!r:.50}, expected {expected}")
        for x in pair:
            if isinstance(x, str):
                check_unicode(x, f"`{argument}`: item {i}")
        pairs.append(tuple(pair))
    return pairs


def is_examples(texts):
    """Return whether `texts` is a list of `InputExample` or of a similar class."""
    return isinstance(texts, list) and bool(texts) and hasattr(texts[0], "text_a")


def check_columns(texts, argument, counts):
    """Convert rows (list of tuples), columns (tuple of lists) or a DataFrame to text columns."""
    numbers = " or ".join(map(str, counts))
    if isinstance(texts, tuple) and len(texts) in counts and all(map(_is_column, texts)):
        columns = list(texts)
    else:
        rows = check_list(texts, argument, f"a list of rows of {numbers} texts")
        for i, row in enumerate(rows):
            is_row = isinstance(row, (tuple, list, np.ndarray)) and len(row) in counts
            if not is_row or len(row) != len(rows[0]):
                raise UserError(
                    f"`{argument}`: item {i} is {row!r:.50}, expected {numbers} texts and the "
                    "same number in each item"
                )
        columns = [[row[i] for row in rows] for i in range(len(rows[0]))] if rows else []
    if not columns or not len(columns[0]):
        raise UserError(f"`{argument}` is empty")
    columns = [check_texts(column, argument) for column in columns]
    for i, column in enumerate(columns):
        check_same_length(f"{argument}[0]", columns[0], f"{argument}[{i}]", column)
    return columns


def check_numbers(values, argument, count):
    """Convert values to a list of `count` finite numbers; raise UserError for anything else."""
    values = check_list(values, argument, "a list of numbers")
    if len(values) != count:
        raise UserError(f"`{argument}`: found {counted(len(values), 'number')}, expected {count}")
    for i, value in enumerate(values):
        is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not is_number or not np.isfinite(value):
            raise UserError(f"`{argument}`: item {i} is {value!r:.50}, expected a number")
    return values


def _is_column(values):
    # Scalar strings of NumPy and TensorFlow have the shape ().
    return isinstance(values, (list, tuple)) or len(getattr(values, "shape", ())) > 0


def check_same_length(argument, values, other_argument, others):
    if len(values) != len(others):
        raise UserError(
            f"`{argument}` and `{other_argument}`: found {len(values)} and {len(others)} items, "
            "expected the same number"
        )


def split_columns(columns, names, share, validation_data):
    """Return the training and validation columns; with a `share`, the last rows validate."""
    if not share:
        is_valid = isinstance(validation_data, (tuple, list)) and len(validation_data) == len(names)
        if validation_data is not None and not is_valid:
            raise UserError(f"`validation_data`: expected ({', '.join(names)})")
        return columns, validation_data
    if validation_data is not None:
        raise UserError("`validation_split` cannot be combined with `validation_data`")
    columns = [x if tf.is_tensor(x) else list(x) for x in columns]
    size = len(columns[0])
    first = size - int(size * share)
    if not 0 < first < size:
        raise UserError(
            f"`validation_split={share}`: expected a fraction from 0 to 1 that leaves some of the "
            f"{size} texts on both sides"
        )
    return [x[:first] for x in columns], [x[first:] for x in columns]
