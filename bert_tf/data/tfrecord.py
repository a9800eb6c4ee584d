"""`tf.train.Example` messages and TFRecord files as bytes, written without TensorFlow.

TensorFlow takes seconds to import in each process, and writes one example at a time.

Examples are serialized as by a deterministic Protocol Buffers serialization, features sorted by
name, so the bytes equal those of `records.serialize`. A TFRecord file contains for each record its
length (8 bytes), a checksum of the length (4), the data, and a checksum of the data (4). The
checksum is a rotated and shifted CRC-32C (tensorflow/core/lib/io/record_writer.h,
lib/hash/crc32c.h).
"""

import functools
import struct

import google_crc32c
import numpy as np


def varint(number):
    """Return a non-negative integer in the Protocol Buffers varint encoding."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


small_varint = functools.lru_cache(maxsize=100_000)(varint)


def int64_feature(name, numbers):
    """Return an entry of `tf.train.Features`: a name (bytes) and an int64_list of varints."""
    return _prefix(name, len(numbers), 0x1A) + numbers


def example(features):
    """Return a `tf.train.Example` made of its features, a list of bytes sorted by name."""
    joined = b"".join(features)
    return b"\x0a" + small_varint(len(joined)) + joined


@functools.lru_cache(maxsize=10_000)
def _prefix(name, size, kind):
    """Return the bytes in front of the values of a feature, which take `size` bytes."""
    parts = []
    for tag in (0x0A, kind, 0x12):  # packed values, in a list of type `kind`, in a feature
        parts.insert(0, bytes([tag]) + varint(size))
        size += len(parts[0])
    parts.insert(0, b"\x0a" + varint(len(name)) + name)
    size += len(parts[0])
    return b"".join([b"\x0a", varint(size), *parts])


def varints(rows):
    """Return a list of the concatenated varints of each row of an array (R, C), 0 to 2**28 - 1."""
    rows = rows.astype(np.uint32)
    size = max(1, (int(rows.max(initial=0)).bit_length() + 6) // 7)
    parts = np.empty((*rows.shape, size), np.uint8)
    used = np.ones(parts.shape, bool)
    for place in range(size):
        parts[..., place] = rows & 0x7F
        rows >>= 7
        if place + 1 < size:
            used[..., place + 1] = rows
            parts[..., place] |= used[..., place + 1].view(np.uint8) << 7
    joined = parts[used].tobytes()
    ends = np.cumsum(np.count_nonzero(used.reshape(len(rows), -1), axis=1)).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def examples(columns, encode=varints):
    """Return a list of R serialized `tf.train.Example`s.

    `columns` is a dict from name to array (R, C), float32 or integers from 0 to 2**28 - 1. `encode`
    does what `varints` does.
    """
    parts, fixed = [], []
    for name, rows in sorted(columns.items()):
        encoded = name.encode()
        if rows.dtype == np.float32:
            fixed.append(_fixed(_prefix(encoded, 4 * rows.shape[1], 0x12), rows.astype("<f4")))
        elif rows.max(initial=0) <= 0x7F:  # one byte per varint
            fixed.append(_fixed(_prefix(encoded, rows.shape[1], 0x1A), rows.astype(np.uint8)))
        else:
            if fixed:
                parts.append(_rows(fixed))
            parts.append([int64_feature(encoded, value) for value in encode(rows)])
            fixed = []
    if fixed:
        parts.append(_rows(fixed))
    return list(map(example, zip(*parts, strict=True)))


def _fixed(prefix, rows):
    """Return features of equal size as a byte array (R, size of a feature)."""
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    prefix = np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(rows), len(prefix)))
    return np.concatenate([prefix, data], axis=1)


def _rows(parts):
    """Return the rows of byte arrays, concatenated horizontally, as bytes objects."""
    rows = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    joined, size = rows.tobytes(), rows.shape[1]
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def frame_records(records):
    """Return records (list of bytes) as the contents of a TFRecord file.

    The results of several calls can be concatenated.
    """
    parts = []
    for record in records:
        parts += _header(len(record)), record, _checksum(record)
    return b"".join(parts)


@functools.lru_cache(maxsize=100_000)
def _header(size):
    length = struct.pack("<Q", size)
    return length + _checksum(length)


def _checksum(data):
    """Return the masked CRC-32C of bytes, as 4 bytes."""
    checksum = google_crc32c.value(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)
