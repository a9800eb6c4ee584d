"""Lists of texts as users give them to pipelines, checked."""

from collections.abc import Mapping, Set

import numpy as np

from bert_tf.errors import UserError, check_unicode


def check_list(values, argument, expected):
    """Return a list, array or series as a list; raise UserError for a str or anything else.

    A DataFrame is the list of its rows, or with one column of its values.
    """
    if isinstance(values, (str, bytes)):
        raise UserError(f"`{argument}`: expected {expected}, found a single str")
    if isinstance(values, (Mapping, Set)):  # a list of these would be that of the keys
        raise UserError(f"`{argument}`: expected {expected}, found a {type(values).__name__}")
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # of pandas or Polars
        values = values.to_numpy()
        values = values[:, 0] if values.shape[1] == 1 else values
    try:
        return list(values)
    except TypeError:
        raise UserError(f"`{argument}`: expected {expected}, found {values!r:.50}") from None


def check_texts(texts, argument):
    """Return a list of str; raise UserError for anything else."""
    texts = check_list(texts, argument, "a list of texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"`{argument}`: expected texts, item {i} is {text!r:.50}")
        check_unicode(text, f"`{argument}`: item {i}")
    return texts


def check_pairs(texts, argument):
    """Return a list of texts, or of pairs of texts, as a list of pairs with "" for no text.

    A tuple of two lists, as in keras-hub, is read as their pairs.

    Raises:
      UserError: if it is anything else; it names `argument`.
    """
    expected = "a list of texts, or of pairs (text_a, text_b)"
    if isinstance(texts, tuple) and len(texts) == 2 and all(map(_is_column, texts)):
        check_same_length(f"{argument}[0]", texts[0], f"{argument}[1]", texts[1])
        texts = list(zip(*texts, strict=True))
    pairs = []
    for i, text in enumerate(check_list(texts, argument, expected)):
        pair = (text, "") if isinstance(text, (str, bytes)) else text
        if hasattr(text, "text_a"):
            pair = (text.text_a, text.text_b or "")
        is_pair = isinstance(pair, (tuple, list, np.ndarray)) and len(pair) == 2
        if not is_pair or not all(isinstance(x, (str, bytes)) for x in pair):
            raise UserError(f"`{argument}`: expected {expected}, item {i} is {text!r:.50}")
        for x in pair:
            if isinstance(x, str):
                check_unicode(x, f"`{argument}`: item {i}")
        pairs.append(tuple(pair))
    return pairs


def is_examples(texts):
    """Return whether texts are a list of `InputExample`, or of a class like it."""
    return isinstance(texts, list) and bool(texts) and hasattr(texts[0], "text_a")


def _is_column(values):
    # Not NumPy's strings, whose shape is ().
    return isinstance(values, list) or bool(getattr(values, "shape", ()))


def check_same_length(argument, values, other_argument, others):
    """Raise UserError if two lists have different lengths."""
    if len(values) != len(others):
        raise UserError(
            f"`{argument}` and `{other_argument}` must have the same length, found {len(values)} "
            f"and {len(others)}"
        )


def split_columns(columns, share):
    """Split lists at the end; return those for training, and the last `share` of them.

    Raises:
      UserError: if one of the parts would be empty.
    """
    columns = [list(column) for column in columns]
    size = len(columns[0])
    first = size - int(size * share)
    if not 0 < first < size:
        raise UserError(
            f"`validation_split={share}`: a share of the {size} texts was expected, 0 to 1"
        )
    return [x[:first] for x in columns], [x[first:] for x in columns]
