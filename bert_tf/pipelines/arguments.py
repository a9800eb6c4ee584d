"""Lists of texts as users give them to pipelines, checked."""

import numpy as np

from bert_tf.errors import UserError, check_unicode


def check_list(values, argument, expected):
    """Return a list, array or series as a list; raise UserError for a str or anything else."""
    if isinstance(values, (str, bytes)):
        raise UserError(f"`{argument}`: expected {expected}, found a single str")
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

    Raises:
      UserError: if it is anything else; it names `argument`.
    """
    expected = "a list of texts, or of pairs (text_a, text_b)"
    pairs = []
    for i, text in enumerate(check_list(texts, argument, expected)):
        pair = (text, "") if isinstance(text, (str, bytes)) else text
        is_pair = isinstance(pair, (tuple, list, np.ndarray)) and len(pair) == 2
        if not is_pair or not all(isinstance(x, (str, bytes)) for x in pair):
            raise UserError(f"`{argument}`: expected {expected}, item {i} is {text!r:.50}")
        for x in pair:
            if isinstance(x, str):
                check_unicode(x, f"`{argument}`: item {i}")
        pairs.append(tuple(pair))
    return pairs


def check_same_length(argument, values, other_argument, others):
    """Raise UserError if two lists have different lengths."""
    if len(values) != len(others):
        raise UserError(
            f"`{argument}` and `{other_argument}` must have the same length, found {len(values)} "
            f"and {len(others)}"
        )
