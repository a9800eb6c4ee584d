"""The frozen table and a vocabulary in the form that the ops of tensorflow-text read.

`FastBertNormalize` takes its rules from a buffer: a trie from the UTF-8 of a character to what
replaces it. The trie is a double array of the kind of darts-clone. A unit of it is 32 bits:

* of a node: bits 0-7 the byte that leads to it, bit 8 whether it has a value, bits 10-30 a number
  that, exclusive-or the node's place, exclusive-or the next byte, is the place of the next node;
  exclusive-or the node's place alone it is the place of the value;
* of a value: bit 31 set, bits 0-30 the value.
"""

import functools

import flatbuffers
import numpy as np

from bert_tf.errors import UserError
from bert_tf.tokenization import table

# A value: the bit for "replaced", where the replacement starts in the pool, how long it is.
_REPLACED, _OFFSET_SHIFT = 0x40000000, 6
_VALUE, _HAS_VALUE, _NEXT_SHIFT = 0x80000000, 0x100, 10
# Bytes of UTF-8 after the first are 0x80 to 0xBF.
_FOLLOWING, _FOLLOWING_COUNT = 0x80, 64

# What the op that cuts words into pieces can hold.
_LONGEST_PIECE = 256
# Words have at most 200 characters of at most 4 bytes.
LONGEST_WORD, LONGEST_WORD_BYTES = 200, 800


def replacements(do_lower_case):
    """Yields (code point, result) of all characters that do not stay as they are, in order."""
    function = table.uncased if do_lower_case else table.cased
    kept = "k" if do_lower_case else "kahm"
    for (rule, _, _), first, end in zip(
        table.RUNS, table.FIRSTS, [*table.FIRSTS[1:], 0x110000], strict=True
    ):
        if rule not in kept:
            for code in range(first, end):
                result = function(code)
                if result != chr(code):  # the space itself
                    yield code, result


@functools.cache
def normalizer_model(do_lower_case):
    """Returns the buffer for `FastBertNormalize`, a uint8 array."""
    pool = bytearray()
    offsets = {}
    values = {}
    for code, result in replacements(do_lower_case):
        part = result.encode()
        if part not in offsets:
            # Most results begin and end with a space, and share it with the one before.
            overlap = pool[-1:] == part[:1] == b" "
            offsets[part] = len(pool) - overlap
            pool += part[overlap:]
        values[code] = _REPLACED | offsets[part] << _OFFSET_SHIFT | len(part)
    # A trie has no place for the byte 0; its value stands apart.
    zero = values.pop(0)
    units = _double_array(values)
    builder = flatbuffers.Builder(4 * len(units) + len(pool) + 256)
    units_at = builder.CreateNumpyVector(units)
    pool_at = builder.CreateNumpyVector(np.frombuffer(bytes(pool), np.uint8))
    builder.StartObject(4)
    builder.PrependBoolSlot(0, do_lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, units_at, 0)
    builder.PrependInt32Slot(2, zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_at, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def _double_array(values):
    """Returns the units, uint32, of a trie from the UTF-8 of code points to their values."""
    # Place 0 is the root, and a character's first byte leads to the place of that number. The nodes
    # that follow one node fill a block of 64 places.
    units = {}
    blocks = {}
    size = 256

    def block_after(prefix):
        nonlocal size
        if prefix not in blocks:
            node = node_of(prefix)
            blocks[prefix] = size
            units[node] = prefix[-1] | (node ^ size ^ _FOLLOWING) << _NEXT_SHIFT
            size += _FOLLOWING_COUNT
        return blocks[prefix]

    def node_of(path):
        if len(path) == 1:
            return path[0]
        return block_after(path[:-1]) + path[-1] - _FOLLOWING

    nodes = []
    for code in values:
        path = chr(code).encode()
        nodes.append((node_of(path), path[-1]))
    places = {}
    for (node, last), value in zip(nodes, values.values(), strict=True):
        if value not in places:
            places[value] = size
            units[size] = _VALUE | value
            size += 1
        units[node] = last | _HAS_VALUE | (node ^ places[value]) << _NEXT_SHIFT
    array = np.zeros(size, np.uint32)
    array[list(units)] = list(units.values())
    return array


def pieces_by_id(vocab, more=()):
    """Returns the pieces in the order of their ids, as the op that cuts words wants them.

    Where a vocabulary has a gap, or a piece that no word can hold, stands a filler.

    Args:
      vocab: dict from piece to id.
      more: pieces to put behind the last id.

    Raises:
      UserError: if a piece is longer than the op allows.
    """
    pieces = [f" {index}" for index in range(max(vocab.values()) + 1)]
    for piece, index in vocab.items():
        if piece in ("", "##") or "\0" in piece or len(piece) > LONGEST_WORD + len("##"):
            continue
        if len(piece.removeprefix("##").encode()) > _LONGEST_PIECE:
            raise UserError(
                f"the piece {piece[:20]!r}... of the vocabulary has more than {_LONGEST_PIECE} "
                "bytes, which the tokenizer in the graph cannot hold"
            )
        pieces[index] = piece
    return [*pieces, *more]
