"""The rules of `normalization` as TensorFlow ops.

`FastBertNormalize`, an op of tensorflow-text, applies the rules for single characters. Context
rules and offsets use core TensorFlow ops.

Shapes: B texts, T characters (code points) of all texts, concatenated.
"""

import functools
import itertools

import flatbuffers
import numpy as np
import tensorflow as tf

from bert_tf.tokenization import normalization

# The properties of a character are packed into one byte: rule + _SIGMA * sigma + _ORDER * order.
_RULES = "kdsiahmM"
_SIGMAS = "-ci"
_SIGMA, _ORDER = 8, 32
_NUM_ORDERS = 8

# The buffer of `FastBertNormalize` is a trie from the UTF-8 of a character to its replacement, as a
# double array in the format of darts-clone. A unit has 32 bits:
#
# * node: bits 0-7 the byte that leads to it, bit 8 whether it has a value, bits 10-30 an offset.
#   The next node is at `index ^ offset ^ byte`, the value at `index ^ offset`;
# * value: bit 31 set, bits 0-30 the value.
_HAS_VALUE, _OFFSET_SHIFT, _IS_VALUE = 0x100, 10, 0x80000000
# The value of a replaced character: this bit, the replacement's start in the pool, its length.
_REPLACED, _START_SHIFT = 0x40000000, 6
# In UTF-8, all bytes of a character except the first are 0x80 to 0xBF.
_FIRST_CONTINUATION, _NUM_CONTINUATIONS = 0x80, 64
# The code points of one to four bytes, and what is added to the first byte.
_UTF8_RANGES, _UTF8_FIRST_BYTES = (0, 0x80, 0x800, 0x10000, 0x110000), (0, 0xC0, 0xE0, 0xF0)


@functools.cache
def normalizer_model(do_lower_case, strip_accents, tokenize_chinese_chars=True):
    """Return the buffer for `FastBertNormalize`, a uint8 array; see `normalize_char`."""
    pool, starts, values = bytearray(), {}, {}
    for code, result in _replacements(do_lower_case, strip_accents, tokenize_chinese_chars):
        encoded = result.encode()
        if encoded not in starts:
            # Most replacements start and end with a space, which neighbors in the pool share.
            overlap = pool[-1:] == encoded[:1] == b" "
            starts[encoded] = len(pool) - overlap
            pool += encoded[overlap:]
        values[code] = _REPLACED | starts[encoded] << _START_SHIFT | len(encoded)
    # The trie cannot contain the byte 0, so its value is stored separately.
    null_value = values.pop(0)
    units = _double_array(values)
    builder = flatbuffers.Builder(4 * len(units) + len(pool) + 256)
    units_offset = builder.CreateNumpyVector(units)
    pool_offset = builder.CreateNumpyVector(np.frombuffer(bytes(pool), np.uint8))
    builder.StartObject(4)
    builder.PrependBoolSlot(0, do_lower_case and strip_accents, False)
    builder.PrependUOffsetTRelativeSlot(1, units_offset, 0)
    builder.PrependInt32Slot(2, null_value, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_offset, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def _replacements(*rules):
    kept_rules = "k" if any(rules[:2]) else "kahm"
    for (rule, _, _), codes in normalization.RUNS:
        if rule not in kept_rules:
            for code in codes:
                result = normalization.normalize_char(code, *rules)
                if result != chr(code):  # a space is replaced by itself
                    yield code, result


def _double_array(values):
    """Return the units (uint32) of a trie from the UTF-8 of code points to their values."""
    codes, values = (np.fromiter(x, np.int64) for x in (values, values.values()))
    distinct, value_indices = np.unique(values, return_inverse=True)
    # The root has index 0, so the first byte of a character is the index of its unit. The children
    # of a node fill a block of 64 units, which starts at a multiple of 64.
    units, size = np.zeros(1 << 21, np.int64), 256 + len(distinct)
    units[256:size] = _IS_VALUE | distinct
    size += -size % _NUM_CONTINUATIONS
    for num_bytes, (first, end) in enumerate(itertools.pairwise(_UTF8_RANGES)):
        selected = (first <= codes) & (codes < end)
        shifted = codes[selected, None] >> 6 * np.arange(num_bytes, -1, -1)
        byte = node = shifted[:, 0] | _UTF8_FIRST_BYTES[num_bytes]
        for prefix, code in itertools.pairwise(shifted.T):
            prefixes, block = np.unique(prefix, return_inverse=True)
            block = size + _NUM_CONTINUATIONS * block
            size += _NUM_CONTINUATIONS * len(prefixes)
            units[node] = byte | (node ^ block ^ _FIRST_CONTINUATION) << _OFFSET_SHIFT
            byte = _FIRST_CONTINUATION | code % _NUM_CONTINUATIONS
            node = block + code % _NUM_CONTINUATIONS
        units[node] = byte | _HAS_VALUE | (node ^ (256 + value_indices[selected])) << _OFFSET_SHIFT
    return units[:size].astype(np.uint32)


# Code points per page of a two-step table.
_PAGE_SIZE = 256


def paged_table(values):
    """Compress uint8 values of all code points to (index of each page, distinct pages)."""
    pages, page_indices = np.unique(values.reshape(-1, _PAGE_SIZE), axis=0, return_inverse=True)
    return page_indices.reshape(-1).astype(np.int32), pages.reshape(-1)


def look_up(table, codes):
    """Return the values of code points (T,) in a `paged_table`, both int32 (T,)."""
    page_indices, pages = table
    page = tf.gather(page_indices, codes // _PAGE_SIZE)
    return tf.cast(tf.gather(pages, page * _PAGE_SIZE + codes % _PAGE_SIZE), tf.int32)


@functools.cache
def _properties():
    packed = [
        _RULES.index(rule) + _SIGMAS.index(sigma) * _SIGMA + order * _ORDER
        for (rule, sigma, order), _ in normalization.RUNS
    ]
    return paged_table(np.repeat(np.uint8(packed), [len(codes) for _, codes in normalization.RUNS]))


_FIRST_NOTE = min(normalization.MUSICAL_NOTES)


_NOTES = range(_FIRST_NOTE, max(normalization.MUSICAL_NOTES) + 1)
_NOTE_TEXTS = [normalization.MUSICAL_NOTES.get(code, "\0") for code in _NOTES]
# The number of parts, and up to three parts, of the code points from _FIRST_NOTE on.
_NOTE_COUNTS = np.array([*map(len, _NOTE_TEXTS)], np.int32)
_NOTE_PARTS = np.array([[*map(ord, text.ljust(3, "\0"))] for text in _NOTE_TEXTS], np.int32)


def _last_true(mask):
    """Return the index of the last True at or before each index of bool (T,), or -1."""
    indices = tf.concat([[-1], tf.cast(tf.where(mask)[:, 0], tf.int32)], 0)
    return tf.gather(indices, tf.cumsum(tf.cast(mask, tf.int32)))


def _next_true(mask):
    """Return the index of the first True at or after each index of bool (T,), or T."""
    size = tf.size(mask)
    indices = tf.concat([tf.cast(tf.where(mask)[:, 0], tf.int32), [size]], 0)
    return tf.gather(indices, tf.cumsum(tf.cast(mask, tf.int32), exclusive=True))


def row_indices(counts):
    """Repeat each index i of `counts`, int32 (B,), `counts[i]` times.

    `tf.repeat` and `RaggedTensor.value_rowids` allocate B times the largest count: gigabytes for a
    single long text.
    """
    ends = tf.cumsum(counts)
    total = tf.reduce_sum(counts)
    return tf.cumsum(tf.math.unsorted_segment_sum(tf.ones_like(ends), ends, total + 1))[:total]


def rows_of_values(ragged):
    return row_indices(tf.cast(ragged.row_lengths(), tf.int32))


def resolve_context(lines, do_lower_case, strip_accents):
    """Apply `normalization.resolve_context` to UTF-8 lines (B,), which start with line breaks.

    Returns the resolved lines (B,), and the index in `lines` of each of their characters (T',).
    """
    ragged = tf.strings.unicode_decode(lines, "UTF-8")
    codes, rows = ragged.values, rows_of_values(ragged)
    if do_lower_case:
        codes = _replace_final_sigmas(codes)
    if not strip_accents:
        texts = tf.strings.unicode_encode(ragged.with_values(codes), "UTF-8")
        return texts, tf.range(tf.size(codes))

    note = tf.clip_by_value(codes - _FIRST_NOTE, 0, len(_NOTE_COUNTS) - 1)
    is_note = (note == codes - _FIRST_NOTE) & (tf.gather(_NOTE_COUNTS, note) > 1)
    counts = tf.where(is_note, tf.gather(_NOTE_COUNTS, note), 1)
    sources = row_indices(counts)
    part = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(counts, exclusive=True), sources)
    parts = tf.gather_nd(_NOTE_PARTS, tf.stack([tf.gather(note, sources), part], 1))
    codes = tf.where(tf.gather(is_note, sources), parts, tf.gather(codes, sources))

    # Sort marks by rank within each run between two characters that no mark moves across.
    rank = look_up(_properties(), codes) // _ORDER
    run = tf.cumsum(tf.cast(rank == 0, tf.int64))
    size = tf.size(codes, tf.int64)
    # The index makes all keys different, so the sort need not be stable.
    order = tf.argsort((run * _NUM_ORDERS + tf.cast(rank, tf.int64)) * size + tf.range(size))
    codes, sources = tf.gather(codes, order), tf.gather(sources, order)
    ragged = tf.RaggedTensor.from_value_rowids(
        codes, tf.gather(rows, sources), tf.size(lines), validate=False
    )
    return tf.strings.unicode_encode(ragged, "UTF-8"), sources


def _replace_final_sigmas(codes):
    """Replace capital sigmas at the end of a word by the final sigma, in code points (T,)."""
    sigma = look_up(_properties(), codes) % _ORDER // _SIGMA
    cased = tf.concat([sigma == _SIGMAS.index("c"), [False]], 0)
    not_ignorable = sigma != _SIGMAS.index("i")
    # Exclude the sigma itself, which is not case-ignorable either.
    before = tf.concat([[0], _last_true(not_ignorable)[:-1]], 0)
    after = tf.concat([_next_true(not_ignorable)[1:], [tf.size(codes)]], 0)
    is_final = tf.gather(cased, tf.maximum(before, 0)) & ~tf.gather(cased, after)
    is_sigma = codes == ord(normalization.SIGMA)
    return tf.where(is_sigma & is_final, ord(normalization.FINAL_SIGMA), codes)


def span_ends(codes, strip_accents):
    """Apply `normalization.span_ends` to code points (T,); texts must start with line breaks."""
    indices = tf.range(tf.size(codes))
    if not strip_accents:
        return indices + 1
    # With the line break at the end, `next_kept` exists even for an empty batch.
    rule = look_up(_properties(), tf.concat([codes, [ord("\n")]], 0)) % _SIGMA
    accent = rule == _RULES.index("a")
    kept = ~accent & (rule != _RULES.index("d"))
    next_kept = _next_true(kept)[1:]
    return tf.maximum(indices, tf.gather(_last_true(accent), next_kept - 1)) + 1


def contains(texts, char_class):
    """Return whether strings (B,) contain a character of a class such as "[ab]", bool (B,)."""
    return tf.strings.regex_full_match(texts, f"(?s).*{char_class}.*")


def map_where(mask, function, texts):
    """Apply `function` to the strings (B,) where `mask` is True; keep the others."""

    def changed():
        results = function(tf.boolean_mask(texts, mask))
        return tf.tensor_scatter_nd_update(texts, tf.where(mask), results)

    return tf.cond(tf.reduce_any(mask), changed, lambda: texts)


def drop_invalid_utf8(texts):
    def transcode(texts):
        return tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="ignore", replace_control_characters=False
        )

    # Most texts are plain ASCII and skip the conversion.
    not_ascii = ~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
    return map_where(not_ascii, transcode, texts)


def concatenated_bytes(texts):
    return tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
