"""What `characters` does with neighbours and places, in TensorFlow ops.

Letters: B texts, T their characters (code points) one after the other.
"""

import numpy as np
import tensorflow as tf

from bert_tf.tokenization import characters, table

# How the properties of a character are packed into one byte.
_SIGMA = "-ci"
_RULE = "kdsiahmM"
_SIGMA_SHIFT, _ORDER_SHIFT = 3, 5

# The table in two steps: which page a block of 256 characters has, and the pages.
_PAGE = 256


def _two_steps():
    packed = [
        _RULE.index(rule) | _SIGMA.index(sigma) << _SIGMA_SHIFT | order << _ORDER_SHIFT
        for rule, sigma, order in table.RUNS
    ]
    whole = np.repeat(np.uint8(packed), np.diff([*table.FIRSTS, 0x110000]))
    pages, numbers = np.unique(whole.reshape(-1, _PAGE), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), pages.reshape(-1)


_NUMBERS, _PAGES = _two_steps()

_FIRST_NOTE = min(characters.NOTES)
_PARTS = max(map(len, characters.NOTES.values()))


def _notes():
    """For each character from the first note to the last: its number of parts, and the parts."""
    codes = range(_FIRST_NOTE, max(characters.NOTES) + 1)
    parts = [[ord(part) for part in characters.NOTES.get(code, "")] for code in codes]
    counts = np.int32([len(found) or 1 for found in parts])
    padded = np.int32([(found + [0] * _PARTS)[:_PARTS] for found in parts])
    return counts, padded


_NOTE_COUNTS, _NOTE_PARTS = _notes()

NEED_NEIGHBOURS = f"[{characters.NEED_NEIGHBOURS}]"


def _properties(codes):
    """int32 (T,) for code points int32 (T,)."""
    number = tf.gather(_NUMBERS, codes // _PAGE)
    return tf.cast(tf.gather(_PAGES, number * _PAGE + codes % _PAGE), tf.int32)


def _rule_is(properties, letter):
    return tf.bitwise.bitwise_and(properties, 7) == _RULE.index(letter)


def _sigma_is(properties, letter):
    sigma = tf.bitwise.bitwise_and(tf.bitwise.right_shift(properties, _SIGMA_SHIFT), 3)
    return sigma == _SIGMA.index(letter)


def _last_true(mask):
    """For each place of bool (T,) the place of the last True up to it, -1 if there is none."""
    places = tf.concat([[-1], tf.cast(tf.where(mask)[:, 0], tf.int32)], 0)
    return tf.gather(places, tf.cumsum(tf.cast(mask, tf.int32)))


def _next_true(mask):
    """For each place of bool (T,) the place of the first True from it on, T if there is none."""
    size = tf.size(mask)
    places = tf.concat([tf.cast(tf.where(mask)[:, 0], tf.int32), [size]], 0)
    return tf.gather(places, tf.cumsum(tf.cast(mask, tf.int32), exclusive=True))


def arrange(lines):
    """`characters.arrange` of many texts.

    Args:
      lines: string (B,), UTF-8, each with a line break in front, which keeps one from the next.

    Returns:
      (string (B,): the arranged lines, int32 (T',): for each of their characters the place, among
      all characters of `lines`, that it comes from)
    """
    ragged = tf.strings.unicode_decode(lines, "UTF-8")
    codes, rows = ragged.values, tf.cast(ragged.value_rowids(), tf.int32)
    codes = _final_sigmas(codes)

    # Notes are taken apart.
    note = tf.clip_by_value(codes - _FIRST_NOTE, 0, len(_NOTE_COUNTS) - 1)
    is_note = (note == codes - _FIRST_NOTE) & (tf.gather(_NOTE_COUNTS, note) > 1)
    counts = tf.where(is_note, tf.gather(_NOTE_COUNTS, note), 1)
    sources = tf.repeat(tf.range(tf.size(codes)), counts)
    part = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(counts, exclusive=True), sources)
    parts = tf.gather_nd(_NOTE_PARTS, tf.stack([tf.gather(note, sources), part], 1))
    codes = tf.where(tf.gather(is_note, sources), parts, tf.gather(codes, sources))

    # Marks are sorted by their places within each run between two characters that nothing passes.
    place = tf.bitwise.right_shift(_properties(codes), _ORDER_SHIFT)
    run = tf.cumsum(tf.cast(place == 0, tf.int64))
    size = tf.size(codes, tf.int64)
    # Told apart by where they stand, no two keys are equal: any sort is a stable one.
    keys = (run * 8 + tf.cast(place, tf.int64)) * size + tf.range(size)
    order = tf.argsort(keys)
    codes, sources = tf.gather(codes, order), tf.gather(sources, order)
    ragged = tf.RaggedTensor.from_value_rowids(
        codes, tf.gather(rows, sources), tf.size(lines), validate=False
    )
    return tf.strings.unicode_encode(ragged, "UTF-8"), sources


def _final_sigmas(codes):
    """Makes final sigmas of the capital sigmas at the end of a word; int32 (T,)."""
    properties = _properties(codes)
    cased = tf.concat([_sigma_is(properties, "c"), [False]], 0)
    meets = ~_sigma_is(properties, "i")
    # A sigma itself is not looked through, so its neighbours are sought from the places beside it.
    before = tf.concat([[0], _last_true(meets)[:-1]], 0)
    after = tf.concat([_next_true(meets)[1:], [tf.size(codes)]], 0)
    final = tf.gather(cased, tf.maximum(before, 0)) & ~tf.gather(cased, after)
    sigma = codes == ord(characters.SIGMA)
    return tf.where(sigma & final, ord(characters.FINAL_SIGMA), codes)


def ends(codes, do_lower_case):
    """`characters.ends` of many texts: int32 (T,), places among all characters.

    Args:
      codes: int32 (T,), code points; each text begins with a line break.
      do_lower_case: whether the text is uncased.
    """
    places = tf.range(tf.size(codes))
    if not do_lower_case:
        return places + 1
    # A line break at the end, so that there is something even where there is no text.
    properties = _properties(tf.concat([codes, [ord("\n")]], 0))
    accent = _rule_is(properties, "a")
    stays = ~(accent | _rule_is(properties, "d"))
    next_stays = _next_true(stays)[1:]
    return tf.maximum(places, tf.gather(_last_true(accent), next_stays - 1)) + 1
