"""Serialization of `tf.train.Example` messages and TFRecord files without TensorFlow.

TensorFlow takes seconds to import in each process and serializes one example at a time.

The bytes equal a deterministic Protocol Buffers serialization, with features sorted by name. A
TFRecord file contains, for each record, its length (8 bytes), a checksum of the length (4), the
data, and a checksum of the data (4). The checksum is a masked CRC-32C
(tensorflow/core/lib/io/record_writer.h, lib/hash/crc32c.h).
"""

import contextlib
import functools
import itertools
import struct

import google_crc32c
import numpy as np

from bert_tf.io import files

# Tags of the lists in a feature: messages with field number 1, 2 or 3.
_FLOAT_LIST, _INT64_LIST = 0x12, 0x1A


def varint(number):
    """Return a non-negative integer in the Protocol Buffers varint encoding."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def varints(rows):
    """Return the concatenated varints of each row of integers (R, C), from 0 to 2**56 - 1."""
    most = int(rows.max(initial=0))
    least = int(rows.min(initial=0))
    if most >> 56 or least < 0:
        raise ValueError(f"found {least or most}, expected integers from 0 to 2**56 - 1")
    # Each word has the bytes of one varint, with 0 for unused bytes.
    rows = rows.astype("<u8" if most >> 28 else "<u4")
    words = rows & 0x7F
    for place in range(1, (most.bit_length() + 6) // 7):
        words |= (rows & 0x7F << 7 * place) << place
        words |= (rows >= 1 << 7 * place).astype(words.dtype) << 8 * place - 1
    parts = words.view(np.uint8).reshape(*words.shape, -1)
    used = parts != 0
    used[..., 0] = True
    joined = parts[used].tobytes()
    ends = np.count_nonzero(used.reshape(len(rows), -1), axis=1).cumsum().tolist()
    return [joined[start:end] for start, end in itertools.pairwise([0, *ends])]


def examples(columns):
    """Return R serialized `tf.train.Example`s from {name: array (R, C)}."""
    # Consecutive features with the same size in all rows are joined as arrays, in `fixed`.
    parts, fixed = [], []
    for name, rows in sorted(columns.items()):
        encoded, kind = name.encode(), _FLOAT_LIST if rows.dtype == np.float32 else _INT64_LIST
        if kind == _INT64_LIST and rows.min(initial=0) >= 0 and rows.max(initial=0) <= 0x7F:
            rows = rows.astype(np.uint8)  # one byte per varint
        if rows.dtype in (np.float32, np.uint8):
            fixed.append(_fixed(_prefix(encoded, rows.itemsize * rows.shape[1], kind), rows))
            continue
        if fixed:
            parts.append(_joined(fixed))
        parts.append([_prefix(encoded, len(x), kind) + x for x in varints(rows)])
        fixed = []
    if fixed:
        parts.append(_joined(fixed))
    features = map(b"".join, zip(*parts, strict=True))
    return [b"\x0a" + varint(len(feature)) + feature for feature in features]


@functools.lru_cache(maxsize=10_000)
def _prefix(name, size, kind):
    """Return the bytes that precede a feature's values, which take `size` bytes."""
    # From the inside: packed numbers, in a list of type `kind`, in a feature.
    parts = []
    for tag in (0x0A, kind, 0x12):
        parts.insert(0, bytes([tag]) + varint(size))
        size += len(parts[0])
    parts.insert(0, b"\x0a" + varint(len(name)) + name)
    size += len(parts[0])
    return b"".join([b"\x0a", varint(size), *parts])


def _fixed(prefix, rows):
    """Return features of equal size as bytes (R, size)."""
    data = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
    data = data.view(np.uint8).reshape(len(rows), -1)
    prefix = np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(rows), len(prefix)))
    return np.concatenate([prefix, data], axis=1)


def _joined(parts):
    """Concatenate byte arrays horizontally."""
    rows = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    joined, size = rows.tobytes(), rows.shape[1]
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def frame_records(records):
    """Return `records`, a list of bytes, as TFRecord file contents, which can be concatenated."""
    parts = []
    for record in records:
        parts += _header(len(record)), record, _checksum(record)
    return b"".join(parts)


@functools.lru_cache(maxsize=100_000)
def _header(size):
    length = struct.pack("<Q", size)
    return length + _checksum(length)


def _checksum(data):
    checksum = google_crc32c.value(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@contextlib.contextmanager
def writing(paths):
    """Yield a function that distributes lists of records over the files in turn."""
    with files.replacing(*paths) as temporary, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(files.open_file(path, "wb")) for path in temporary]
        for writer in writers:
            writer.write(b"")  # TensorFlow creates a file on the first write
        turn = 0

        def write(records):
            nonlocal turn
            for number, writer in enumerate(writers):
                first = (number - turn) % len(writers)
                writer.write(frame_records(records[first :: len(writers)]))
            turn += len(records)

        yield write
