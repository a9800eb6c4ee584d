"""Record files: their format, without TensorFlow, and the numbers of their records."""

import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import struct
from typing import NamedTuple

import google_crc32c
import numpy as np

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Count

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
        encoded = name.encode()
        kind = _FLOAT_LIST if rows.dtype == np.float32 else _INT64_LIST
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
                writer.write(frame_records(records[(number - turn) % len(writers) :: len(writers)]))
            turn += len(records)

        yield write


# Number of files to access in parallel. An object store takes tens of milliseconds per access.
NUM_PARALLEL = 64

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class _Entry(NamedTuple):
    size: Count
    records: Count


_FIELDS = {"files": dict[str, _Entry]}


def map_files(function, paths, what):
    """Return the list of `function(path)` in threads; log slow progress as `what`."""
    progress = console.ProgressLog(what, "files", total=len(paths), is_brief=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(NUM_PARALLEL) as pool:
        for result in pool.map(function, paths):
            results.append(result)
            progress.add()
    progress.done()
    return results


def sizes(paths):
    """Return the file sizes in bytes; raise UserError if a file does not exist."""
    return map_files(lambda path: files.size_and_time(path)[0], paths, "listing")


def fingerprint(paths, sizes):
    """Return count, total bytes and a digest of names and sizes; the folder does not matter."""
    pairs = [[os.path.basename(path), int(size)] for path, size in zip(paths, sizes, strict=True)]
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    return [len(pairs), sum(size for _, size in pairs), int(digest[:15], 16)]


def side_file(path):
    """Return "wiki.counts.json" for all shards like "wiki-00000-of-00040"."""
    return _SHARD.sub("", path) + files.RECORD_COUNTS


def write_counts(counts):
    """Write the side files for a dict from path to count; keep existing entries for other files."""
    groups: dict[str, list] = {}
    for path in (path for path in counts if not files.is_stream(path)):
        groups.setdefault(side_file(path), []).append(path)
    for side, paths in groups.items():
        try:
            pairs = zip(sizes(paths), map(counts.get, paths), strict=True)
            _write(side, _load(side) | dict(zip(map(os.path.basename, paths), pairs, strict=True)))
        # A file of the user has the name, or complete shards are in a read-only folder.
        except UserError as error:
            console.warning("%s; a resumed run will count the records", error)


def save_counts(cache, counts):
    """Write record counts, by full path, to the file `cache`."""
    pairs = zip(sizes(list(counts)), counts.values(), strict=True)
    _write(cache, dict(zip(counts, pairs, strict=True)))


def _write(path, entries):
    lines = [  # one per file
        f'  {json.dumps(name)}: {{"size": {size}, "records": {records}}}'
        for name, (size, records) in entries.items()
    ]
    files.write_text(path, '{"files": {\n' + ",\n".join(lines) + "\n}}\n")


def read_counts(paths, sizes, cache=None):
    """Return record counts from `cache` or side files; None if one is missing or outdated."""
    if cache and (counts := _match(map(_read(cache).get, paths), sizes)):
        return counts
    sides = list(dict.fromkeys(map(side_file, paths)))
    entries = dict(zip(sides, map_files(_read, sides, "reading the counts"), strict=True))
    return _match([entries[side_file(x)].get(os.path.basename(x)) for x in paths], sizes)


def count_records(paths):
    """Count the records of each file by reading it; raise UserError if a file is truncated."""
    return map_files(_count, paths, "counting the records")


def _count(path):
    import tensorflow as tf

    records = tf.data.TFRecordDataset(path)
    with files.naming_errors(f"{path}: cannot be read"):
        return int(records.reduce(0, lambda count, _: count + 1))


def _read(path):
    try:
        return _load(path)
    except UserError:
        console.warning("%s is ignored, because it is not a side file of TFRecord files", path)
        return {}


def _load(path):
    entries = json_files.read(path, _FIELDS)["files"] if files.exists(path) else {}
    return {name: (entry["size"], entry["records"]) for name, entry in entries.items()}


def _match(entries, sizes):
    # An empty file needs no entry.
    found = [entry or (0, 0) for entry in entries]
    return [count for _, count in found] if [size for size, _ in found] == sizes else None
